import { type ClientOptions, connect, type Session } from '@parlance/client';
import {
  createServer,
  type Feature,
  type Server,
  type ServerOptions,
  type ServerSession,
} from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import { createPeers, failure } from '../kit/peers.js';

/** Names that users of other libraries write first, in plain JavaScript. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

const thrown = (call: () => unknown): unknown => {
  try {
    call();
  } catch (error) {
    return error;
  }
  throw new Error('it did not throw');
};

describe('an option of another library is answered with ours', () => {
  it.each([
    ['cors', 'origins'],
    ['onMessage', 'onSession'],
    ['onConnection', 'onSession'],
    ['headers', 'authenticate'],
    ['server', 'server.attach(httpServer)'],
    ['port', 'server.listen({ port, host })'],
    ['pingInterval', 'timers: { pingIntervalMs }'],
    ['pingTimeout', 'timers: { pongTimeoutMs }'],
    ['maxHttpBufferSize', 'limits: { maxMessageSize }'],
  ])('at a server: %s is %s', (name, ours) => {
    const error = thrown(() => createServer({ [name]: {} } as ServerOptions));
    expect(error).toMatchObject({ code: 'invalid_option' });
    expect((error as Error).message).toContain(`unknown option "${name}": `);
    expect((error as Error).message).toContain(ours);
  });

  it.each([
    ['headers', 'token'],
    ['auth', 'token'],
    ['query', 'token'],
    ['onMessage', 'for await'],
    ['pingInterval', 'timers: { pingIntervalMs }'],
    ['reconnectionDelay', 'reconnect: { minDelayMs, maxDelayMs }'],
    ['path', 'URL'],
  ])('at a client: %s is %s', async (name, ours) => {
    const error = await failure(connect('ws://127.0.0.1:1', { [name]: {} } as ClientOptions));
    expect(error).toMatchObject({ code: 'invalid_option' });
    expect(error.message).toContain(`unknown option "${name}": `);
    expect(error.message).toContain(ours);
  });

  it('and a misspelt one of ours with that', async () => {
    expect(thrown(() => createServer({ orgins: [] } as ServerOptions))).toMatchObject({
      message: expect.stringContaining('did you mean "origins"?'),
    });
    const connecting = connect('ws://127.0.0.1:1', { tokn: '' } as ClientOptions);
    expect(await failure(connecting)).toMatchObject({
      message: expect.stringContaining('did you mean "token"?'),
    });
  });
});

describe('a method of another library is answered with ours', () => {
  type Foreign = Readonly<Record<string, (...args: unknown[]) => unknown>>;

  it.each([
    ['to', "server.group('name').send(message)"],
    ['broadcast', "server.group('name').send(message)"],
    ['emit', "server.group('name').send(message)"],
    ['on', 'onSession'],
    ['use', 'hooks('],
  ])('server.%s is %s', (name, ours) => {
    const server = createServer() as unknown as Server & Foreign;
    const error = thrown(() => server[name]?.('lobby'));
    expect(error).toMatchObject({ code: 'unsupported', message: expect.stringContaining(ours) });
  });

  it.each([
    ['join', "server.group('name').add(session)"],
    ['leave', "server.group('name').delete(session)"],
    ['to', 'except: session'],
    ['emit', 'events(contract)'],
    ['disconnect', 'session.close('],
  ])('session.%s is %s, at a server', async (name, ours) => {
    const { url, server } = await peers.serve();
    const { id } = await peers.dial(url);
    const session = server.sessions.get(id) as unknown as Foreign;
    const error = thrown(() => session[name]?.('lobby'));
    expect(error).toMatchObject({ code: 'unsupported', message: expect.stringContaining(ours) });
  });

  it('unless a feature adds one of that name', async () => {
    const joining: Feature = {
      name: 'joining',
      install: () => ({ verbs: { join: () => 'joined' } as object }),
    };
    const { url, server } = await peers.serve({ features: [joining] });
    const { id } = await peers.dial(url);
    const session = server.sessions.get(id) as ServerSession & { join(): string };
    expect(session.join()).toBe('joined');
  });
});

it('a client finds `ws` by itself, and a server by its host alone', async () => {
  const { port } = await peers.serve({ onRequest: ({ text }) => `re: ${text}` });
  const session: Session = peers.use(await connect(`ws://127.0.0.1:${port}`));
  expect((await session.request('hello')).text).toBe('re: hello');
});
