import { createServer as createHttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createServer, RequestError } from '@parlance/server';
import { type ChatRequest, chatHandler, chatSocket } from '@parlance/server/ai';
import type { UIMessage } from 'ai';
import { z } from 'zod';
import { createScriptedModel } from './model.js';

/** A chat on a server of sessions, and the same chat over HTTP. */

export type AI = Pick<
  typeof import('ai'),
  'streamText' | 'convertToModelMessages' | 'createUIMessageStream' | 'tool' | 'pipeUIMessageStreamToResponse'
>;

/** How an answer ended, as `onFinish` was told. */
export interface Finished {
  readonly chat: string;
  readonly isAborted: boolean;
  readonly isContinuation: boolean;
  /** All text of the answer. */
  readonly text: string;
  readonly messages: number;
}

export interface ChatAppState {
  /** Words that the model wrote. */
  readonly words: number;
  /** Calls of the model that were aborted. */
  readonly aborted: number;
  /** Messages in the prompt of each call of the model. */
  readonly prompts: readonly number[];
  readonly finished: readonly Finished[];
}

export interface ChatApp extends AsyncDisposable {
  readonly url: string;
  /** Of `WebSocketChatTransport`. */
  readonly socket: string;
  /** Of the default transport. */
  readonly api: string;
  state(): Promise<ChatAppState>;
}

type Asked = Pick<ChatRequest, 'id' | 'messages' | 'body' | 'headers' | 'metadata' | 'signal'>;

/** @param origins of the pages. */
export async function startChatApp(ai: AI, origins: readonly string[]): Promise<ChatApp> {
  const script = createScriptedModel();
  const finished: Finished[] = [];

  async function answer({ messages, signal }: Pick<Asked, 'messages' | 'signal'>) {
    return ai.streamText({
      model: script.model,
      messages: await ai.convertToModelMessages(messages),
      abortSignal: signal,
      maxRetries: 0,
      onError: () => {},
      stopWhen: ({ steps }) => steps.length >= 4,
      tools: {
        weather: ai.tool({
          inputSchema: z.object({ city: z.string() }),
          execute: ({ city }) => ({ city, sky: 'blue' }),
        }),
        location: ai.tool({ inputSchema: z.object({ city: z.string() }) }),
        erase: ai.tool({
          inputSchema: z.object({ city: z.string() }),
          needsApproval: true,
          execute: ({ city }) => ({ erased: city }),
        }),
      },
    });
  }

  const streamOptions = (chat: string) => ({
    messageMetadata: ({ part }: { part: { type: string } }) =>
      part.type === 'start' ? { startedBy: 'the server' } : undefined,
    onFinish: (event: {
      isAborted: boolean;
      isContinuation: boolean;
      responseMessage: UIMessage;
      messages: readonly UIMessage[];
    }) => {
      const { isAborted, isContinuation, responseMessage, messages } = event;
      const text = responseMessage.parts.map((part) => (part.type === 'text' ? part.text : '')).join('');
      finished.push({ chat, isAborted, isContinuation, text, messages: messages.length });
    },
  });

  /** The content of the request, as data parts. */
  function echo({ messages, body, headers, metadata }: Asked) {
    const files = messages
      .flatMap(({ parts }) => parts)
      .flatMap((part) =>
        part.type === 'file' ? [`${part.mediaType} ${part.filename} ${part.url.length}`] : [],
      );
    return ai.createUIMessageStream({
      execute: ({ writer }) => {
        writer.write({ type: 'data-step', id: 'one', data: { done: 1 } });
        writer.write({ type: 'data-step', id: 'one', data: { done: 2 } });
        writer.write({ type: 'data-note', data: { note: 'transient' }, transient: true });
        const custom = headers.get('x-custom');
        writer.write({ type: 'data-echo', data: { body, custom, metadata, files } });
      },
    });
  }

  const lastText = (messages: readonly UIMessage[]) => {
    const part = messages.findLast(({ role }) => role === 'user')?.parts.find(({ type }) => type === 'text');
    return part?.type === 'text' ? part.text : '';
  };

  const onChat = (request: ChatRequest) => {
    const text = lastText(request.messages);
    if (text === 'refuse') throw new RequestError('no_credit', 'buy more', { data: { missing: 3 } });
    return text === 'echo' ? echo(request) : answer(request);
  };
  const options = { stream: ({ id }: ChatRequest) => streamOptions(id) };

  const server = createServer({
    origins,
    authenticate: ({ token }) => ({ principal: token ?? 'nameless' }),
    onRequest: chatHandler(onChat, options),
    features: [chatSocket({ path: '/chat', onChat, ...options })],
  });
  const { url } = await server.listen();

  const http = createHttpServer(async (request, response) => {
    response.setHeader('access-control-allow-origin', '*');
    response.setHeader('access-control-allow-headers', '*');
    if (request.method !== 'POST') {
      // The default transport has no memory of answers: there is nothing to resume.
      response.writeHead(204).end();
      return;
    }
    let text = '';
    for await (const chunk of request) text += chunk;
    const { id, messages } = JSON.parse(text) as { id: string; messages: UIMessage[] };
    const aborter = new AbortController();
    response.once('close', () => aborter.abort());
    const result = await answer({ messages, signal: aborter.signal });
    const stream = result.toUIMessageStream({ originalMessages: messages, ...streamOptions(id) });
    ai.pipeUIMessageStreamToResponse({ response, stream });
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  const { port } = http.address() as AddressInfo;

  return {
    url,
    socket: url.replace(/[^/]*$/, 'chat'),
    api: `http://127.0.0.1:${port}/chat`,
    async state() {
      const { words, aborted, calls } = script;
      return { words, aborted, prompts: calls.map(({ prompt }) => prompt.length), finished };
    },
    async [Symbol.asyncDispose]() {
      http.closeAllConnections();
      http.close();
      await server.close();
    },
  };
}
