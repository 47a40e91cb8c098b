import { type ClientOptions, connect } from '@parlance/client';
import { ChatDisconnectedError, SessionChatTransport } from '@parlance/client/ai';
import { createServer, type ServerOptions } from '@parlance/server';
import { chatHandler } from '@parlance/server/ai';
import type { UIMessageChunk } from 'ai';
import { afterEach, expect, it } from 'vitest';
import WebSocket from 'ws';
import { InitChat } from '../ai/plain-chat.js';
import { createCuttingProxy } from '../kit/cutting-proxy.js';

/** A session that is lost in the middle of an answer of the AI SDK, which the server keeps. */

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

/** An answer that the test writes word by word. */
class Script {
  readonly #words: string[] = [];
  #wake = (): void => {};
  isOver = false;
  isStopped = false;

  write(...words: string[]): void {
    this.#words.push(...words);
    this.#wake();
  }
  end(): void {
    this.isOver = true;
    this.#wake();
  }

  async *chunks(signal: AbortSignal): AsyncGenerator<UIMessageChunk> {
    signal.addEventListener('abort', () => {
      this.isStopped = true;
      this.#wake();
    });
    yield { type: 'start', messageId: 'm1' };
    yield { type: 'text-start', id: '1' };
    while (!this.isStopped) {
      const word = this.#words.shift();
      if (word !== undefined) yield { type: 'text-delta', id: '1', delta: `${word} ` };
      else if (this.isOver) break;
      else
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
    }
    yield { type: 'text-end', id: '1' };
    yield { type: 'finish' };
  }
}

async function setUp(client: ClientOptions = {}, options: ServerOptions = {}) {
  const script = new Script();
  const server = createServer({
    authenticate: () => ({ principal: 'ada' }),
    timers: { resumeWindowMs: 100 },
    onRequest: chatHandler(({ signal }) => script.chunks(signal)),
    ...options,
  });
  open.push(server);
  const { url } = await server.listen();
  const proxy = await createCuttingProxy(Number(new URL(url).port));
  open.push(proxy);
  const sessions: Awaited<ReturnType<typeof connect>>[] = [];
  const join = async () => {
    const session = await connect(url.replace(/:\d+/, `:${proxy.port}`), {
      WebSocket,
      token: 't',
      ...client,
    });
    sessions.push(session);
    open.push(session);
    return session;
  };
  /** Takes the network away until the server has given the session up. */
  const lose = async (): Promise<void> => {
    // A client that does not reconnect gives it up at once.
    proxy.refuse(client.reconnect !== false);
    proxy.cut();
    if (client.reconnect !== false) await expect.poll(() => server.sessions.size).toBe(0);
  };
  const finished: { isDisconnect: boolean; isError: boolean; isAbort: boolean }[] = [];
  const transport = new SessionChatTransport(join);
  const chat = new InitChat({
    id: 'chat',
    transport,
    onError() {},
    onFinish: ({ isDisconnect, isError, isAbort }) => void finished.push({ isDisconnect, isError, isAbort }),
  });
  return { server, script, proxy, lose, sessions, transport, chat, finished };
}

it.each([
  ['the same session object', {}],
  ['another one', { reconnect: false }],
] as const)('an answer continues in the next session, by %s', async (_name, client) => {
  const { script, proxy, lose, chat, finished, sessions } = await setUp(client);
  const asked = chat.sendMessage({ text: 'hi' });
  script.write('one', 'two');
  await expect.poll(() => chat.text).toBe('one two ');
  await lose();
  script.write('three');
  proxy.refuse(false);
  await expect.poll(() => [chat.text, chat.status]).toEqual(['one two three ', 'streaming']);
  // And once more: it is followed by now.
  await lose();
  script.write('four');
  script.end();
  proxy.refuse(false);
  await asked;
  expect([chat.text, chat.status, chat.error]).toEqual(['one two three four ', 'ready', undefined]);
  expect(finished).toEqual([{ isDisconnect: false, isError: false, isAbort: false }]);
  expect(sessions.length).toBe('reconnect' in client ? 3 : 1);
});

it('an answer that is followed continues as well', async () => {
  const { script, proxy, lose, chat, transport } = await setUp();
  const asked = chat.sendMessage({ text: 'hi' });
  script.write('one', 'two');
  await expect.poll(() => chat.text).toBe('one two ');
  const second = new InitChat({ id: 'chat', transport });
  const followed = second.resumeStream();
  await expect.poll(() => second.text).toBe('one two ');
  await lose();
  script.write('three');
  script.end();
  proxy.refuse(false);
  await Promise.all([asked, followed]);
  expect([second.text, second.status, second.error]).toEqual(['one two three ', 'ready', undefined]);
});

it.each(['before the session is back', 'when it is back'])('stop() stops the model %s', async (when) => {
  const { script, proxy, lose, chat } = await setUp();
  void chat.sendMessage({ text: 'hi' });
  script.write('one');
  await expect.poll(() => chat.text).toBe('one ');
  await lose();
  if (when.startsWith('before')) {
    await chat.stop();
    expect([chat.status, chat.error, script.isStopped]).toEqual(['ready', undefined, false]);
    proxy.refuse(false);
  } else {
    proxy.refuse(false);
    script.write('two');
    await expect.poll(() => chat.text).toBe('one two ');
    await chat.stop();
  }
  await expect.poll(() => script.isStopped).toBe(true);
});

it('a session that none follows is a disconnect for the AI SDK, with the error as its cause', async () => {
  const { script, proxy, lose, sessions, finished } = await setUp({ reconnect: false });
  // A session of the application, which opens no other.
  const chat = new InitChat({
    id: 'own',
    transport: new SessionChatTransport(
      connect(`ws://127.0.0.1:${proxy.port}/session`, { WebSocket, token: 't', reconnect: false }),
    ),
    onError() {},
    onFinish: ({ isDisconnect, isError, isAbort }) => void finished.push({ isDisconnect, isError, isAbort }),
  });
  const asked = chat.sendMessage({ text: 'hi' });
  script.write('one');
  await expect.poll(() => chat.text).toBe('one ');
  await lose();
  await asked;
  expect(finished).toEqual([{ isDisconnect: true, isError: true, isAbort: false }]);
  expect(chat.error).toBeInstanceOf(ChatDisconnectedError);
  expect(chat.error).toBeInstanceOf(TypeError);
  expect(chat.error).toMatchObject({
    code: 'session_lost',
    retryable: false,
    cause: { name: 'ProtocolError', code: 'session_lost' },
  });
  expect(chat.error?.message).toMatch(/^network: /);
  expect(sessions).toEqual([]);
});

it('an answer that the next server does not know is lost, and no disconnect', async () => {
  const { script, proxy, lose, chat, finished } = await setUp();
  const asked = chat.sendMessage({ text: 'hi' });
  script.write('one');
  await expect.poll(() => chat.text).toBe('one ');
  await lose();
  const other = createServer({ authenticate: () => ({ principal: 'ada' }) });
  open.push(other);
  proxy.redirect(Number(new URL((await other.listen()).url).port));
  proxy.refuse(false);
  await asked;
  expect([chat.text, chat.code]).toEqual(['one ', 'session_lost']);
  expect(finished).toEqual([{ isDisconnect: false, isError: true, isAbort: false }]);
});

it('a session that the application closes ends the answer', async () => {
  const { script, chat, sessions } = await setUp();
  const asked = chat.sendMessage({ text: 'hi' });
  script.write('one');
  await expect.poll(() => chat.text).toBe('one ');
  await sessions[0]?.close();
  await asked;
  expect([chat.code, sessions.length]).toEqual(['session_closed', 1]);
});
