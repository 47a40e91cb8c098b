import { createUIMessageStream, safeValidateWebSocketChatTransportRequest } from 'ai';
import { WebSocketServer } from 'ws';
import { answer } from '../model.mjs';

const KEPT_MS = 120_000;
const server = new WebSocketServer({ port: process.env.PORT });
/** By chat: all chunks, so that a page that resumes gets the answer from its beginning. */
const answers = new Map();

async function run(chat, messages, kept) {
  const send = (frame) => {
    for (const [socket, requestId] of kept.readers) socket.send(JSON.stringify({ ...frame, requestId }));
  };
  const { text } = messages.at(-1).parts.find(({ type }) => type === 'text');
  const stream = createUIMessageStream({
    originalMessages: messages,
    onError: (error) => error.message,
    async execute({ writer }) {
      writer.write({ type: 'text-start', id: '1' });
      for await (const delta of answer(text, kept.running))
        writer.write({ type: 'text-delta', id: '1', delta: `${delta} ` });
      writer.write({ type: 'text-end', id: '1' });
    },
  });
  for await (const chunk of stream) {
    const frame = { type: 'chunk', sequence: kept.frames.length, chunk };
    kept.frames.push(frame);
    send(frame);
  }
  kept.isEnded = true;
  send({ type: 'end' });
  kept.readers.clear();
  setTimeout(() => answers.get(chat) === kept && answers.delete(chat), KEPT_MS);
}

server.on('connection', (socket) => {
  socket.on('error', console.error);
  socket.on('close', () => {
    for (const { readers } of answers.values()) readers.delete(socket);
  });
  socket.on('message', async (data) => {
    const { success, data: frame } = await safeValidateWebSocketChatTransportRequest({
      value: JSON.parse(data),
    });
    if (!success) return socket.close(1008, 'invalid frame');
    const { type, requestId, id } = frame;
    const send = (response) => socket.send(JSON.stringify({ ...response, requestId }));
    const kept = answers.get(id);
    if (type === 'abort') {
      for (const { readers, running } of answers.values())
        if (readers.get(socket) === requestId) running.abort();
    } else if (type === 'resume') {
      if (kept === undefined) return send({ type: 'no-active' });
      send({ type: 'start' });
      for (const each of kept.frames) send(each);
      if (kept.isEnded) send({ type: 'end' });
      else kept.readers.set(socket, requestId);
    } else if (kept?.isEnded === false) {
      send({ type: 'error', errorText: 'an answer is under way' });
    } else {
      const begun = {
        running: new AbortController(),
        frames: [],
        readers: new Map([[socket, requestId]]),
        isEnded: false,
      };
      answers.set(id, begun);
      await run(id, frame.messages, begun);
    }
  });
});
