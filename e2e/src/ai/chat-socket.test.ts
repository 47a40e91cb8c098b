import { once } from 'node:events';
import { SessionChatTransport } from '@parlance/client/ai';
import { CloseCode } from '@parlance/protocol';
import {
  cluster,
  createServer,
  memoryCluster,
  RequestError,
  type ServerOptions,
  without,
} from '@parlance/server';
import { type ChatRequest, type ChatSocketOptions, chatHandler, chatSocket } from '@parlance/server/ai';
import type { UIMessageChunk } from 'ai';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { createPeers } from '../kit/peers.js';

/** The protocol of `WebSocketChatTransport`, message by message; chat-socket.browser.test.ts has the transport itself. */

const peers = createPeers();
const open: WebSocket[] = [];
afterEach(async () => {
  for (const socket of open.splice(0)) socket.terminate();
  await peers[Symbol.asyncDispose]();
});

interface Frame {
  readonly type: string;
  readonly requestId: string;
  readonly sequence?: number;
  readonly chunk?: { readonly type: string; readonly delta?: string };
  readonly errorText?: string;
}

class Client {
  readonly socket: WebSocket;
  readonly frames: Frame[] = [];
  readonly closed: Promise<number>;

  constructor(url: string, protocols: readonly string[] = []) {
    this.socket = new WebSocket(url, [...protocols]);
    open.push(this.socket);
    this.socket.on('message', (data) => this.frames.push(JSON.parse(String(data))));
    this.socket.on('error', () => {});
    this.closed = new Promise((resolve) => this.socket.once('close', resolve));
  }

  async send(frame: object | string | Buffer): Promise<void> {
    if (this.socket.readyState === WebSocket.CONNECTING) await once(this.socket, 'open');
    const isRaw = typeof frame === 'string' || Buffer.isBuffer(frame);
    this.socket.send(isRaw ? frame : JSON.stringify({ headers: {}, body: {}, ...frame }));
  }

  ask(requestId: string, more: object = {}): Promise<void> {
    return this.send({ type: 'send', requestId, id: 'c', trigger: 'submit-message', messages: [], ...more });
  }

  resume(requestId: string, more: object = {}): Promise<void> {
    return this.send({ type: 'resume', requestId, id: 'c', ...more });
  }

  abort(requestId: string): Promise<void> {
    return this.send({ type: 'abort', requestId });
  }

  of(requestId: string): readonly Frame[] {
    return this.frames.filter((frame) => frame.requestId === requestId);
  }

  /** The chunks of a request: number and type, or text. */
  chunks(requestId: string): readonly (readonly [number | undefined, string | undefined])[] {
    return this.of(requestId)
      .filter(({ type }) => type === 'chunk')
      .map(({ sequence, chunk }) => [sequence, chunk?.delta ?? chunk?.type]);
  }

  async has(requestId: string, type: string): Promise<Frame> {
    await expect.poll(() => this.of(requestId).map((frame) => frame.type)).toContain(type);
    return this.of(requestId).find((frame) => frame.type === type) as Frame;
  }

  async reads(requestId: string, count: number): Promise<void> {
    await expect.poll(() => this.chunks(requestId).length).toBeGreaterThanOrEqual(count);
  }
}

/** A model that writes words when it is told to, to whichever request reads them first, and ends all of them. */
class Model {
  readonly requests: ChatRequest[] = [];
  readonly #words: string[] = [];
  readonly #waiting: (() => void)[] = [];
  #hasEnded = false;
  written = 0;

  write(...words: readonly string[]): void {
    this.#words.push(...words);
    this.#go();
  }

  end(): void {
    this.#hasEnded = true;
    this.#go();
  }

  #go(): void {
    for (const go of this.#waiting.splice(0)) go();
  }

  readonly answer = async function* (this: Model, request: ChatRequest): AsyncGenerator<UIMessageChunk> {
    this.requests.push(request);
    const { signal } = request;
    signal.addEventListener('abort', () => this.#go());
    yield { type: 'start', messageId: 'm' };
    while (!signal.aborted) {
      const delta = this.#words.shift();
      if (delta !== undefined) {
        yield { type: 'text-delta', id: '1', delta };
        this.written++;
      } else if (this.#hasEnded) break;
      else await new Promise<void>((resolve) => void this.#waiting.push(resolve));
    }
    yield { type: 'finish' };
  }.bind(this);
}

async function start(chat: Partial<ChatSocketOptions> = {}, options: ServerOptions = {}) {
  const model = new Model();
  const feature = chatSocket({ path: '/chat', onChat: model.answer, ...chat });
  const { port, url, server } = await peers.serve({
    authenticate: ({ token }) => (token === undefined ? undefined : { principal: token }),
    ...options,
    features: [feature],
  });
  const address = (token: string) => `ws://127.0.0.1:${port}/chat?token=${token}`;
  const dial = (token = 'anna') => new Client(address(token));
  return { model, dial, url, port, server, address };
}

const NUMBERED = [
  [0, 'start'],
  [1, 'one '],
  [2, 'two '],
  [3, 'finish'],
];

describe('chatSocket', () => {
  it('answers with numbered chunks, several requests over one WebSocket, and has what the client says', async () => {
    const { model, dial } = await start();
    const client = dial();
    const message = { id: '1', role: 'user', parts: [{ type: 'text', text: 'hello' }] };
    await client.ask('1', {
      messages: [message],
      headers: { 'X-Of': 'the request' },
      body: { own: 1 },
      metadata: { mood: 'good' },
      messageId: 'm',
    });
    model.write('one ', 'two ');
    await client.reads('1', 3);
    await client.ask('2', { id: 'another', trigger: 'regenerate-message' });
    model.end();
    await Promise.all([client.has('1', 'end'), client.has('2', 'end')]);
    expect(client.chunks('1')).toEqual(NUMBERED);
    expect(client.chunks('2')).toEqual([
      [0, 'start'],
      [1, 'finish'],
    ]);
    const [{ headers, session, ...request } = {} as ChatRequest, second] = model.requests;
    expect(request).toMatchObject({ id: 'c', messages: [message], body: { own: 1 }, messageId: 'm' });
    expect([request.metadata, headers.get('x-of'), session.principal, second?.trigger]).toEqual([
      { mood: 'good' },
      'the request',
      'anna',
      'regenerate-message',
    ]);
  });

  it.each(['close', 'terminate'] as const)(
    'is left by a client (%s), and followed from the first chunk or a later one by the same principal',
    async (leave) => {
      const { model, dial } = await start();
      const client = dial();
      await client.ask('1');
      model.write('one ');
      await client.reads('1', 2);
      client.socket[leave]();
      await client.closed;
      const [again, stranger] = [dial(), dial('berta')];
      await again.resume('a');
      await again.resume('b', { lastSequence: 0 });
      await again.resume('c', { lastSequence: 7 });
      await stranger.resume('a');
      model.write('two ');
      await Promise.all([again.reads('a', 3), again.reads('b', 2), stranger.has('a', 'no-active')]);
      expect(model.requests[0]?.signal.aborted).toBe(false);
      model.end();
      await Promise.all(['a', 'b', 'c'].map((id) => again.has(id, 'end')));
      expect(again.of('a')[0]).toEqual({ type: 'start', requestId: 'a' });
      const chunks = ['a', 'b', 'c'].map((id) => again.chunks(id));
      expect(chunks).toEqual([NUMBERED, NUMBERED.slice(1), []]);
      // It is over, so nothing is to be followed.
      await again.resume('d');
      await again.has('d', 'no-active');
      expect(model.requests).toHaveLength(1);
    },
  );

  it('stops the model for the abort of a send, which others see, and takes more requests', async () => {
    const { model, dial } = await start();
    const [client, other] = [dial(), dial()];
    await client.ask('1');
    await client.reads('1', 1);
    await other.resume('a');
    await other.reads('a', 1);
    await client.abort('1');
    await expect.poll(() => model.requests[0]?.signal.aborted).toBe(true);
    await other.has('a', 'end');
    expect(other.chunks('a').at(-1)?.[1]).toBe('abort');
    expect(client.of('1').map(({ type }) => type)).not.toContain('end');
    await client.abort('unknown');
    await client.ask('1');
    model.end();
    await client.has('1', 'end');
  });

  it('stops the model for the abort of a resume, unless a resume of that chat follows', async () => {
    const { model, dial } = await start();
    const [client, other] = [dial(), dial()];
    await client.ask('1');
    await other.resume('a');
    await other.reads('a', 1);
    await other.abort('a');
    await other.resume('b');
    // Before it is known whether there is an answer.
    await other.abort('b');
    await other.resume('c');
    await other.reads('c', 1);
    await new Promise((resolve) => setTimeout(resolve, STOP_DELAY_MS + 200));
    expect(model.requests[0]?.signal.aborted).toBe(false);
    await other.abort('c');
    await expect.poll(() => model.requests[0]?.signal.aborted).toBe(true);
    await client.has('1', 'end');
    expect(client.chunks('1').at(-1)?.[1]).toBe('abort');
  });

  it('stops it at once if the client that has aborted a resume leaves', async () => {
    const { model, dial } = await start();
    const [client, other] = [dial(), dial()];
    await client.ask('1');
    await other.resume('a');
    await other.reads('a', 1);
    await other.abort('a');
    other.socket.close();
    await client.has('1', 'end');
    expect(model.requests[0]?.signal.aborted).toBe(true);
  });

  it('replays the message that an answer continues to those who follow it, and only to them', async () => {
    const { model, dial } = await start();
    const client = dial();
    const text = { type: 'text', text: 'before ' };
    await client.ask('1', { messages: [{ id: 'm', role: 'assistant', parts: [text] }] });
    await client.reads('1', 1);
    await client.resume('a');
    await client.resume('b', { lastSequence: 0 });
    await Promise.all([client.has('a', 'start'), client.has('b', 'start')]);
    model.write('one ');
    model.end();
    await Promise.all(['1', 'a', 'b'].map((id) => client.has(id, 'end')));
    expect(client.chunks('1').map(([, of]) => of)).toEqual(['start', 'one ', 'finish']);
    const replayed = ['start', 'text-start', 'before ', 'text-end', 'start', 'one ', 'finish'];
    expect(client.chunks('a')).toEqual(replayed.map((of, sequence) => [sequence, of]));
    expect(client.chunks('b')).toEqual(client.chunks('1').slice(1));
  });

  it('says why a request failed, and what no chat can be asked', async () => {
    const { dial } = await start({
      onChat: ({ id }) => {
        if (id === 'refused') throw new RequestError('no_credit', 'buy more');
        throw new TypeError('a secret bug');
      },
    });
    const client = dial();
    await client.ask('1', { id: 'refused' });
    await client.ask('2');
    await client.ask('3', { id: '' });
    await client.ask('4', { messages: 'none' });
    await client.resume('5', { lastSequence: -1 });
    const texts = await Promise.all(
      ['1', '2', '3', '4', '5'].map(async (id) => (await client.has(id, 'error')).errorText),
    );
    expect(texts[0]).toBe('buy more');
    expect(texts[1]).not.toMatch('secret');
    expect(texts[2]).toMatch('the ID of a chat');
    expect(texts[3]).toMatch('messages must be a list');
    expect(texts[4]).toMatch('lastSequence');
    expect(client.socket.readyState).toBe(WebSocket.OPEN);
  });

  it.each([
    ['text that is not JSON', '{', 1008],
    ['no object', '[]', 1008],
    ['another type', { type: 'follow', requestId: '1' }, 1008],
    ['no requestId', { type: 'abort' }, 1008],
    ['a requestId of 257 characters', { type: 'abort', requestId: 'x'.repeat(257) }, 1008],
    ['an object of 100,000 levels', '{"a":'.repeat(100_000), 1008],
    ['bytes', Buffer.from('{}'), 1003],
  ])('closes the WebSocket of a client that sends %s, and no other', async (_name, frame, code) => {
    const { model, dial } = await start();
    const [client, other] = [dial(), dial()];
    await other.ask('1');
    await client.send(frame);
    expect(await client.closed).toBe(code);
    model.end();
    await other.has('1', 'end');
  });

  it('reads nothing behind a malformed message', async () => {
    const { model, dial } = await start();
    const client = dial();
    await client.send('{');
    await client.ask('1');
    expect(await client.closed).toBe(1008);
    expect(model.requests).toEqual([]);
  });

  it('has nothing to resume at a server that keeps no replies', async () => {
    const model = new Model();
    const feature = chatSocket({ path: '/chat', onChat: model.answer });
    const { port } = await peers.serve({ features: [feature, without('replies')] });
    const client = new Client(`ws://127.0.0.1:${port}/chat`);
    await client.ask('1');
    await client.reads('1', 1);
    await client.resume('2');
    await client.has('2', 'no-active');
    model.end();
    await client.has('1', 'end');
  });

  it('takes 64 requests of a WebSocket at a time', async () => {
    const { model, dial } = await start();
    const client = dial();
    for (let i = 0; i < 65; i++) await client.ask(`${i}`, { id: `${i}` });
    expect((await client.has('64', 'error')).errorText).toMatch('64 requests');
    await client.ask('0');
    expect((await client.has('0', 'error')).errorText).toMatch('being answered');
    model.end();
    await client.has('63', 'end');
  });

  it('holds the model back for a client that does not read', async () => {
    const { model, dial } = await start();
    const client = dial();
    await client.ask('1');
    await client.reads('1', 1);
    client.socket.pause();
    model.write(...new Array<string>(2_000).fill('x'.repeat(16_384)));
    let before = -1;
    await expect
      .poll(() => {
        const isSteady = model.written === before && before > 0;
        before = model.written;
        return isSteady;
      }, POLL)
      .toBe(true);
    expect(model.written).toBeLessThan(1_900);
    client.socket.resume();
    model.end();
    await client.has('1', 'end');
    expect(client.chunks('1')).toHaveLength(2_002);
  });

  it('refuses who is not authenticated, and selects the subprotocol that it was given', async () => {
    const { dial, address } = await start({ subprotocol: 'chat.v1' });
    expect(await dial().closed).toBe(1006);
    const client = new Client(address('anna'), ['other', 'chat.v1']);
    await client.resume('1');
    await client.has('1', 'no-active');
    expect(client.socket.protocol).toBe('chat.v1');
    const nobody = new Client(address('anna').replace(/\?.*/, ''), ['chat.v1']);
    expect(await nobody.closed).toBe(CloseCode.UNAUTHENTICATED);
  });

  it('leaves sessions to the application, whose handler it does not need', async () => {
    const { url } = await start();
    const session = await peers.dial(url, { token: 'anna' });
    await expect(session.request('hello', { metadata: { ai_chat: {} } })).rejects.toMatchObject({
      code: 'unsupported',
    });
    const { url: second } = await start({}, { onRequest: () => 'of the application' });
    const other = await peers.dial(second, { token: 'anna' });
    expect((await other.request('hello', { metadata: { ai_chat: {} } })).text).toBe('of the application');
  });

  it('shares its answers with the chats of sessions, both ways', async () => {
    const model = new Model();
    const { dial, url } = await start({ onChat: model.answer }, { onRequest: chatHandler(model.answer) });
    const transport = new SessionChatTransport(await peers.dial(url, { token: 'anna' }));
    const read = async (stream: ReadableStream<UIMessageChunk> | null) => {
      const types: string[] = [];
      for await (const { type } of stream ?? []) types.push(type);
      return types;
    };
    const client = dial();
    await client.ask('1');
    await client.reads('1', 1);
    const followed = read(await transport.reconnectToStream({ chatId: 'c' }));
    const asked = { trigger: 'submit-message', messageId: undefined } as const;
    const answer = await transport.sendMessages({
      ...asked,
      ...{ messages: [], chatId: 'd', abortSignal: undefined },
    });
    const answered = read(answer);
    await expect.poll(() => model.requests.length).toBe(2);
    await client.resume('2', { id: 'd' });
    await client.has('2', 'start');
    model.end();
    await client.has('2', 'end');
    const all = ['start', 'finish'];
    expect([await followed, await answered, client.chunks('2').map(([, type]) => type)]).toEqual([
      all,
      all,
      all,
    ]);
  });

  it('lets an answer be followed and stopped at another node', async () => {
    const model = new Model();
    const engine = memoryCluster();
    const node = async () => {
      const features = [cluster({ secret: 'a secret of the cluster in tests' })];
      const chat = chatSocket({ path: '/chat', onChat: model.answer });
      const authenticate = ({ token = '' }) => ({ principal: token });
      const { port } = await peers.serve({ engine, features: [...features, chat], authenticate });
      const client = new Client(`ws://127.0.0.1:${port}/chat?token=anna`);
      await client.resume('none');
      await client.has('none', 'no-active');
      return client;
    };
    const [here, there] = [await node(), await node()];
    await here.ask('1');
    model.write('one ', 'two ');
    await here.reads('1', 3);
    await there.resume('a');
    await there.reads('a', 3);
    await there.abort('a');
    await here.has('1', 'end');
    expect(here.chunks('1').slice(0, 3)).toEqual(there.chunks('a').slice(0, 3));
    expect(model.requests[0]?.signal.aborted).toBe(true);
  });

  it('drops one-way messages, for which its protocol has no place', async () => {
    let sent = 0;
    const { model, dial } = await start(
      {},
      {
        async onSession(session) {
          for (; sent < 1_000; sent++) await session.send('x'.repeat(10_000));
        },
      },
    );
    const client = dial();
    await client.ask('1');
    await expect.poll(() => sent).toBe(1_000);
    model.end();
    await client.has('1', 'end');
    expect(client.frames.map(({ type }) => type)).toEqual(['chunk', 'chunk', 'end']);
  });

  it('closes its WebSockets when the server drains and nothing is under way', async () => {
    const { model, dial, server } = await start();
    const [idle, busy] = [dial(), dial()];
    await idle.resume('1');
    await idle.has('1', 'no-active');
    await busy.ask('1');
    await busy.reads('1', 1);
    const drained = server.drain({ timeoutMs: 60_000 });
    expect(await idle.closed).toBe(1001);
    model.end();
    await busy.has('1', 'end');
    expect(await busy.closed).toBe(1001);
    await drained;
  });

  it.each([
    [{ path: 'chat' }, 'path'],
    [{ path: undefined }, 'path'],
    [{ onChat: 'yes' }, 'onChat'],
    [{ keep: { name: 'mine' } }, 'keep: '],
    [{ pth: '/chat' }, 'path'],
  ])('refuses the options %j', (wrong, message) => {
    const options = { path: '/chat', onChat: () => [], ...wrong };
    expect(() => chatSocket(options as never)).toThrow(
      expect.objectContaining({ code: 'invalid_option', message: expect.stringContaining(message) }),
    );
  });

  it('cannot be where sessions are', () => {
    const onChat = new Model().answer;
    expect(() => createServer({ path: '/chat', features: [chatSocket({ path: '/chat', onChat })] })).toThrow(
      expect.objectContaining({ code: 'invalid_option', message: expect.stringContaining('of sessions') }),
    );
  });
});

/** Of what must not change between two looks. */
const POLL = { interval: 500 };
/** As the server waits for another `resume`. */
const STOP_DELAY_MS = 1_000;
