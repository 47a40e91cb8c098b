import type { IncomingMessage } from 'node:http';
import type { ProtocolError, Session } from '@parlance/protocol';
import { afterEach, expect, it } from 'vitest';
import { createServer, type Server } from '../create-server.js';
import type { Feature } from '../server/features/feature.js';
import type { OwnHooks, OwnHost } from '../server/features/own-feature.js';
import type { ServerOptions } from '../server/server-options.js';

/** Visitors and their sessions within the process, without a socket. */

const servers: Server[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close({ sessions: 'end' });
});

/** The host of a feature of a server that listens nowhere. */
function hostOf(options: ServerOptions = {}): { readonly host: OwnHost; readonly server: Server } {
  const hosts: OwnHost[] = [];
  const feature: Feature = {
    name: 'endpoint',
    install(host: OwnHost): OwnHooks {
      hosts.push(host);
      return {};
    },
  };
  const server = createServer({
    onRequest: ({ text }) => `re: ${text}`,
    logger: { debug() {}, info() {}, warn() {}, error() {} },
    onError() {},
    ...options,
    features: [feature],
  });
  servers.push(server);
  return { server, host: hosts[0] as OwnHost };
}

function request(address = '127.0.0.1', headers: Readonly<Record<string, string>> = {}): IncomingMessage {
  const socket = { remoteAddress: address, localAddress: '127.0.0.1' };
  return { socket, headers: { host: 'localhost', ...headers } } as unknown as IncomingMessage;
}

const failure = (promise: Promise<unknown>): Promise<ProtocolError> =>
  promise.then(
    () => expect.fail('it did not fail'),
    (error) => error,
  );

const bearer = (token: string) => request(undefined, { authorization: `Bearer ${token}` });
const authenticate = ({ token }: { readonly token: string | undefined }) =>
  token === 'ann' ? { principal: 'ann' } : null;

async function open(options?: ServerOptions) {
  const { host, server } = hostOf(options);
  const session = await host.session(await host.identify(request()));
  return { host, server, session };
}

it('asks the application who has sent a request, by its token or another one', async () => {
  const { host } = hostOf({ authenticate });
  expect(await host.identify(bearer('ann'))).toMatchObject({ principal: 'ann', ip: '127.0.0.1' });
  expect(await host.identify(request(), { token: 'ann' })).toMatchObject({ principal: 'ann' });
  expect((await failure(host.identify(bearer('bob')))).code).toBe('unauthenticated');
});

it('refuses pages of other origins before it asks, and says if the application fails', async () => {
  let asked = 0;
  const { host } = hostOf({
    authenticate() {
      asked++;
      throw new Error('a fault');
    },
  });
  const page = request(undefined, { origin: 'https://evil.example' });
  expect((await failure(host.identify(page))).code).toBe('forbidden');
  expect(asked).toBe(0);
  expect((await failure(host.identify(request()))).code).toBe('internal');
});

it('counts each request once, and wrong credentials, against the address', async () => {
  const { host } = hostOf({ authenticate, limits: { connectionsPerMinutePerIp: 2 } });
  const first = bearer('ann');
  await host.identify(first);
  await host.identify(first);
  await host.identify(bearer('ann'));
  expect(await failure(host.identify(bearer('ann')))).toMatchObject({ code: 'rate_limited' });

  const other = hostOf({ authenticate, limits: { failuresPerMinutePerIp: 2 } });
  for (const token of ['x', 'y'])
    expect((await failure(other.host.identify(bearer(token)))).code).toBe('unauthenticated');
  expect((await failure(other.host.identify(bearer('ann')))).code).toBe('rate_limited');
});

it('has requests answered, streamed and failed by the handlers of the server', async () => {
  const { session } = await open({
    async *onRequest({ text }) {
      if (text === 'fail') throw new Error('a fault of the application');
      for (const word of text.split(' ')) yield word;
    },
  });
  expect((await session.request('one two')).text).toBe('onetwo');
  const parts: string[] = [];
  for await (const part of session.stream('a b c')) parts.push(part.text);
  expect(parts).toEqual(['a', 'b', 'c']);
  expect(await failure(session.request('fail'))).toMatchObject({ code: 'internal', side: 'remote' });
  expect((await session.request('still')).text).toBe('still');
});

it('carries more than a transport may buffer, in both directions', async () => {
  const { session } = await open({ onRequest: ({ text }) => text + text });
  const long = 'x'.repeat(1_000_000);
  expect((await session.request(long)).text.length).toBe(2_000_000);
});

it('has messages of both ends, and requests of the server', async () => {
  const { host, server } = hostOf({
    async onSession(session) {
      for await (const message of session) {
        await session.send(`got ${message.text}`);
        await session.send((await session.request('who?')).text);
      }
    },
  });
  const session = await host.session(await host.identify(request()), { onRequest: () => 'me' });
  await session.send('x');
  const said: string[] = [];
  for await (const message of session) if (said.push(message.text) === 2) break;
  expect(said).toEqual(['got x', 'me']);
  expect([...server.sessions.keys()]).toEqual([session.id]);
});

it('ends by either end, and is a session of the server until then', async () => {
  const ended: string[] = [];
  const onSession = async (session: Session) => {
    ended.push((await session.closed).side);
  };
  const { host, server, session } = await open({ onSession });
  await session.close();
  expect(server.sessions.size).toBe(0);
  const second = await host.session(await host.identify(request()));
  await server.sessions.get(second.id)?.close({ code: 'enough', reason: 'said' });
  expect(await second.closed).toMatchObject({ code: 'enough', reason: 'said' });
  expect(server.sessions.size).toBe(0);
  await expect.poll(() => ended).toEqual(['remote', 'local']);
});

it('counts for its address, up to the limit', async () => {
  const { host, session } = await open({ limits: { sessionsPerIp: 2 } });
  const visitor = await host.identify(request());
  await host.session(visitor);
  expect(await failure(host.session(visitor))).toMatchObject({ code: 'rate_limited' });
  await session.close();
  expect((await (await host.session(visitor)).request('x')).text).toBe('re: x');
});

it('ends in a drain when nothing is under way, and none begins then', async () => {
  let begin = () => {};
  let answer = (_text: string) => {};
  const begun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  const { host, server, session } = await open({
    onRequest: () =>
      new Promise<string>((resolve) => {
        answer = resolve;
        begin();
      }),
  });
  const visitor = await host.identify(request());
  const reply = session.request('slow');
  await begun;
  const drained = server.drain({ timeoutMs: 60_000 });
  expect((await failure(host.session(visitor))).code).toBe('draining');
  answer('done');
  expect((await reply).text).toBe('done');
  expect(await drained).toMatchObject({ ended: 1, interrupted: 0, lost: 0 });
});

it('is for visitors of the same server alone', async () => {
  const { host } = hostOf();
  const stranger = await hostOf().host.identify(request());
  expect((await failure(host.session(stranger))).code).toBe('invalid_argument');
});
