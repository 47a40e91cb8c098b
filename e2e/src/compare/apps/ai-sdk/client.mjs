import { setTimeout as pause } from 'node:timers/promises';
import { generateId, readUIMessageStream, WebSocketChatTransport } from 'ai';
import { WebSocket } from 'ws';

const RESUME_MS = 1_000;

export async function open({ server, storage, show, clear }) {
  const isNew = storage.getItem('chat') === null;
  const chatId = storage.getItem('chat') ?? generateId();
  storage.setItem('chat', chatId);
  const transport = new WebSocketChatTransport({
    url: server,
    webSocket: WebSocket,
    // The last message alone, as for a server that stores the chat.
    prepareSendMessagesRequest: ({ messages }) => ({ messages: messages.slice(-1) }),
  });
  const messages = [];
  let running;

  async function read(stream) {
    let shown = 0;
    let failure;
    const onError = (error) => (failure = error);
    for await (const message of readUIMessageStream({ stream, onError })) {
      const words = message.parts.flatMap((part) =>
        part.type === 'text' ? (part.text.match(/\S+/g) ?? []) : [],
      );
      for (const word of words.slice(shown)) show(word);
      shown = words.length;
    }
    if (failure !== undefined) throw failure;
  }
  /** The answer is sent again from its beginning. */
  async function resume() {
    for (;;) {
      let stream;
      try {
        stream = await transport.reconnectToStream({ chatId });
      } catch {
        await pause(RESUME_MS);
        continue;
      }
      if (stream === null) throw new Error('no answer is active');
      clear();
      return await read(stream);
    }
  }
  return {
    async ask(text) {
      messages.push({ id: generateId(), role: 'user', parts: [{ type: 'text', text }] });
      running = new AbortController();
      const abortSignal = running.signal;
      const options = { chatId, messages, abortSignal, trigger: 'submit-message', messageId: undefined };
      try {
        await read(await transport.sendMessages(options));
      } catch (error) {
        if (abortSignal.aborted) throw error;
        await pause(RESUME_MS);
        await resume();
      }
    },
    stop: () => running.abort(),
    resume: isNew ? undefined : resume,
  };
}
