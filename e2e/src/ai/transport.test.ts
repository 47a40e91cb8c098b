import { type ClientSession, connect } from '@parlance/client';
import { SessionChatTransport, type SessionChatTransportOptions } from '@parlance/client/ai';
import { createServer, keptReplies, RequestError, type ServerOptions } from '@parlance/server';
import { type ChatRequest, chatHandler } from '@parlance/server/ai';
import { convertToModelMessages, streamText, type UIMessage } from 'ai';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import WebSocket from 'ws';
import { createScriptedModel, words } from './model.js';
import { PlainChat } from './plain-chat.js';

/** The transport without React. */

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

const script = createScriptedModel();

async function answer({ messages, signal }: ChatRequest) {
  return streamText({
    model: script.model,
    messages: await convertToModelMessages(messages),
    abortSignal: signal,
    onError: () => {},
  });
}

async function serve(options: ServerOptions = {}): Promise<() => Promise<ClientSession>> {
  const authenticate: ServerOptions['authenticate'] = ({ token }) => ({ principal: token ?? '' });
  const server = createServer({ authenticate, onRequest: chatHandler(answer), ...options });
  open.push(server);
  const { url } = await server.listen();
  return async () => {
    const session = await connect(url, { WebSocket, token: 'anna' });
    open.push(session);
    return session;
  };
}

async function setUp(
  options: ServerOptions = {},
  transportOptions: SessionChatTransportOptions = {},
): Promise<SessionChatTransport> {
  const join = await serve(options);
  return new SessionChatTransport(await join(), transportOptions);
}

describe('a chat without React', () => {
  it('streams, stops and continues', async () => {
    const transport = await setUp();
    const chat = new PlainChat(transport);
    await chat.sendMessage({ text: 'words 20' });
    expect([chat.status, chat.text]).toEqual(['ready', words(20)]);
    const { aborted } = script;
    const asked = chat.sendMessage({ text: 'words 4000' });
    await expect.poll(() => chat.text).toMatch('w5');
    await chat.stop();
    await asked;
    await expect.poll(() => script.aborted).toBe(aborted + 1);
    expect([chat.status, chat.error]).toEqual(['ready', undefined]);
  });

  it('follows an answer once, from each part that the page has already', async () => {
    const join = await serve();
    const first = new PlainChat(new SessionChatTransport(await join()));
    const asked = first.sendMessage({ text: 'words 300' });
    await expect.poll(() => first.text).toMatch('w20');
    const half: UIMessage = {
      id: first.lastMessage?.id ?? '',
      role: 'assistant',
      parts: [
        { type: 'text', text: 'w0 w1 ' },
        { type: 'tool-search', toolCallId: '1', state: 'input-streaming', input: undefined },
      ],
    };
    const [question] = first.messages as [UIMessage];
    const chat = new PlainChat(new SessionChatTransport(await join()), 'chat', [question, half]);
    // As a component that is mounted twice does.
    await Promise.all([chat.resumeStream(), chat.resumeStream()]);
    await asked;
    expect([first.text, chat.text]).toEqual([words(300), words(300)]);
    expect(chat.messages).toHaveLength(2);
  });

  it('finds nothing to follow before an answer, after it, and in a chat of another principal', async () => {
    const join = await serve();
    const [one, two] = [await join(), await join()];
    const transport = new SessionChatTransport(two);
    const reconnect = () => transport.reconnectToStream({ chatId: 'chat' });
    expect(await reconnect()).toBeNull();
    const chat = new PlainChat(new SessionChatTransport(one));
    const asked = chat.sendMessage({ text: 'words 100' });
    await expect.poll(() => chat.text).toMatch('w1');
    const stream = await reconnect();
    expect(stream).not.toBeNull();
    await stream?.cancel();
    expect(await transport.reconnectToStream({ chatId: 'another' })).toBeNull();
    await asked;
    // Leaving the stream has not stopped the answer.
    expect(chat.text).toBe(words(100));
    expect(await reconnect()).toBeNull();
  });

  it('stops an answer while it is looking for it', async () => {
    const join = await serve();
    const chat = new PlainChat(new SessionChatTransport(await join()));
    const asked = chat.sendMessage({ text: 'words 4000' });
    await expect.poll(() => chat.text).toMatch('w1');
    const { aborted } = script;
    const aborter = new AbortController();
    const other = new SessionChatTransport(await join());
    const following = other.reconnectToStream({ chatId: 'chat', abortSignal: aborter.signal });
    aborter.abort();
    await expect(following).rejects.toMatchObject({ name: 'AbortError' });
    await asked;
    await expect.poll(() => script.aborted).toBe(aborted + 1);
    expect([chat.status, chat.error]).toEqual(['ready', undefined]);
  });

  it('takes IDs of 1 to 123 bytes', async () => {
    const transport = await setUp();
    for (const id of ['x', 'é'.repeat(61), 'reply_1', 'x'.repeat(123)]) {
      const chat = new PlainChat(transport, id);
      await chat.sendMessage({ text: 'words 2' });
      expect([id, chat.error, chat.text]).toEqual([id, undefined, words(2)]);
    }
    for (const id of ['', 'é'.repeat(62), 'x'.repeat(124)]) {
      await expect(transport.reconnectToStream({ chatId: id })).rejects.toMatchObject({
        code: 'invalid_argument',
      });
    }
    const chat = new PlainChat(transport, 'x'.repeat(124));
    await chat.sendMessage({ text: 'words 2' });
    expect(chat.code).toBe('invalid_argument');
  });

  it('fails with the error of a promise, and calls a function again that has failed', async () => {
    const join = await serve();
    let calls = 0;
    const failing = () => {
      calls++;
      return calls === 1 ? Promise.reject(new RequestError('offline', 'no network')) : join();
    };
    const transport = new SessionChatTransport(failing);
    const refused = new SessionChatTransport(Promise.reject(new RequestError('refused', 'not today')));
    const expected = [
      [transport, 'offline'],
      [transport, undefined],
      [new SessionChatTransport(join()), undefined],
      [refused, 'refused'],
    ] as const;
    for (const [each, code] of expected) {
      const chat = new PlainChat(each);
      await chat.sendMessage({ text: 'words 2' });
      expect([chat.code, chat.status]).toEqual([code, code === undefined ? 'ready' : 'error']);
    }
  });

  it('sends payloads that look like a form of a body as they are', async () => {
    const asked: ChatRequest[] = [];
    const onRequest = chatHandler((request) => {
      asked.push(request);
      return answer(request);
    });
    const chat = new PlainChat(await setUp({ onRequest }));
    for (const body of [{ text: 'x' }, { json: { a: 1 } }])
      await chat.sendMessage({ text: 'words 1' }, { body });
    expect(asked.map(({ body }) => body)).toEqual([{ text: 'x' }, { json: { a: 1 } }]);
  });

  it('sends what the application prepares', async () => {
    const asked: ChatRequest[] = [];
    const onRequest = chatHandler((request) => {
      asked.push(request);
      return answer(request);
    });
    const transport = await setUp(
      { onRequest },
      {
        body: async () => ({ model: 'small' }),
        headers: () => ({ 'x-one': '1' }),
        prepareSendMessagesRequest: ({ messages, body, headers, id }) => ({
          body: { messages: messages.slice(-1), ...body, chat: id },
          headers: { ...headers, 'x-two': '2' },
        }),
      },
    );
    const chat = new PlainChat(transport);
    await chat.sendMessage({ text: 'words 1' });
    await chat.sendMessage({ text: 'words 2' }, { body: { model: 'large' } });
    expect(asked.map(({ messages }) => messages.length)).toEqual([1, 1]);
    expect(asked.map(({ body }) => [body['model'], body['chat']])).toEqual([
      ['small', 'chat'],
      ['large', 'chat'],
    ]);
    expect(Object.fromEntries(asked[1]?.headers ?? [])).toEqual({ 'x-one': '1', 'x-two': '2' });
  });

  it('says so if the server does not answer with chunks, and stops it', async () => {
    let isStopped = false;
    const onRequest: ServerOptions['onRequest'] = async function* (_request, { signal }) {
      yield 'hello';
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      isStopped = true;
    };
    const chat = new PlainChat(await setUp({ onRequest }));
    await chat.sendMessage({ text: 'words 1' });
    expect(chat.code).toBe('unsupported');
    expect(chat.error?.message).toMatch('chatHandler');
    await expect.poll(() => isStopped).toBe(true);
  });

  it('answers a chat whose answer cannot be kept, and logs that', async () => {
    const logged: unknown[] = [];
    const log = (fields: object) => void logged.push(fields);
    const logger = { debug() {}, info() {}, warn: log, error: log };
    const join = await serve({
      logger,
      onRequest: chatHandler(answer),
      features: [keptReplies({ maxReplies: 1 })],
    });
    const chats = ['one', 'two'].map(async (id) => new PlainChat(new SessionChatTransport(await join()), id));
    const both = await Promise.all(chats);
    await Promise.all(both.map((chat) => chat.sendMessage({ text: 'words 50' })));
    expect(both.map(({ text }) => text)).toEqual([words(50), words(50)]);
    expect(logged).toEqual([expect.objectContaining({ event: 'reply.unkept' })]);
  });
});

describe('the session of a transport', () => {
  async function count(options: ServerOptions = {}) {
    let opened = 0;
    const server = createServer({
      authenticate: ({ token }) => {
        opened++;
        return { principal: token ?? '' };
      },
      onRequest: chatHandler(answer),
      ...options,
    });
    open.push(server);
    return { server, url: (await server.listen()).url, opened: () => opened };
  }

  const use = async (transport: SessionChatTransport) => {
    const chats = ['one', 'two', 'three'].map((id) => new PlainChat(transport, id));
    await Promise.all(
      chats.map(async (chat, i) => {
        await transport.reconnectToStream({ chatId: `${i}` });
        await chat.sendMessage({ text: 'words 2' });
      }),
    );
    expect(chats.map(({ text, code }) => [text, code])).toEqual(chats.map(() => [words(2), undefined]));
  };

  it('is opened by a function once, until it is closed', async () => {
    const { url, opened } = await count();
    const made: ClientSession[] = [];
    const transport = new SessionChatTransport(async () => {
      const session = await connect(url, { WebSocket, token: 'anna' });
      open.push(session);
      made.push(session);
      return session;
    });
    expect(made.length).toBe(0);
    await use(transport);
    await use(transport);
    expect([made.length, opened()]).toEqual([1, 1]);
    // It is not the transport's to close.
    await transport.close();
    expect(made[0]?.state).toBe('established');
    await made[0]?.close();
    await use(transport);
    expect([made.length, opened()]).toEqual([2, 2]);
  });

  describe('in a page', () => {
    beforeEach(() => void vi.stubGlobal('window', globalThis));
    afterEach(() => void vi.unstubAllGlobals());

    it('is opened for a URL with the first request, once, and closed by the application', async () => {
      const { server, url, opened } = await count();
      const entries = new Map<string, string>();
      const store = {
        getItem: (key: string) => entries.get(key) ?? null,
        setItem: (key: string, value: string) => void entries.set(key, value),
        removeItem: (key: string) => void entries.delete(key),
      };
      let asked = 0;
      const transport = new SessionChatTransport({
        url: () => url,
        token: 'anna',
        WebSocket,
        store: () => {
          asked++;
          return store;
        },
      });
      open.push({ [Symbol.asyncDispose]: () => transport.close() });
      await transport.close();
      expect([server.sessions.size, asked]).toEqual([0, 0]);
      await use(transport);
      await use(transport);
      expect([server.sessions.size, opened(), asked]).toEqual([1, 1, 1]);
      expect(entries.size).toBe(1);
      await transport.close();
      await expect.poll(() => server.sessions.size).toBe(0);
      await use(transport);
      expect([opened(), asked]).toEqual([2, 2]);
    });

    it('is closed if the transport was closed meanwhile, and the one after it stays', async () => {
      const { server, url, opened } = await count();
      let release = (): void => {};
      const first = new Promise<void>((resolve) => {
        release = resolve;
      });
      let asked = 0;
      const transport = new SessionChatTransport({
        url,
        WebSocket,
        token: async () => {
          if (++asked === 1) await first;
          return 'anna';
        },
      });
      open.push({ [Symbol.asyncDispose]: () => transport.close() });
      const sending = new PlainChat(transport).sendMessage({ text: 'words 2' });
      await expect.poll(() => asked).toBe(1);
      const closed = transport.close();
      await use(transport);
      release();
      await Promise.all([closed, sending]);
      await use(transport);
      expect([asked, opened()]).toEqual([2, 2]);
      await transport.close();
      await expect.poll(() => server.sessions.size).toBe(0);
    });

    it('is opened again after it could not be, and says why not', async () => {
      let url = 'ws://127.0.0.1:1/session';
      const transport = new SessionChatTransport({
        url: () => url,
        WebSocket,
        token: 'anna',
        reconnect: false,
      });
      open.push({ [Symbol.asyncDispose]: () => transport.close() });
      const chat = new PlainChat(transport);
      await chat.sendMessage({ text: 'words 2' });
      expect([chat.code, chat.error?.message]).toEqual(['connection_failed', expect.stringContaining(url)]);
      url = (await count()).url;
      await use(transport);
    });
  });

  it('is never opened on a server', async () => {
    const { url, opened } = await count();
    // As at the top of a module: nothing here may need a page.
    const transport = new SessionChatTransport({ url, WebSocket, store: () => sessionStorage });
    const chat = new PlainChat(transport);
    await chat.sendMessage({ text: 'words 2' });
    expect([chat.code, chat.error?.message]).toEqual([
      'unsupported',
      'there is no window: a chat opens its session in a page; on a server, give it a session',
    ]);
    expect(opened()).toBe(0);
  });
});
