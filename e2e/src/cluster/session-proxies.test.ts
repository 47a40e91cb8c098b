import type { Socket } from 'node:net';
import { CloseCode, encodeControl, ProtocolError } from '@parlance/protocol';
import { incarnationOf } from '@parlance/protocol/internal';
import {
  cluster,
  createServer,
  type Engine,
  type Logger,
  memoryCluster,
  type Server,
  type ServerOptions,
} from '@parlance/server';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type ClientOfTicket, digestOf, Tickets } from '../../../packages/server/src/cluster/ticket.js';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import { createPeers, failure, greet, helloBytes, openRaw, type RawPeer } from '../kit/peers.js';
import { merged } from '../kit/server-options.js';
import { textOfMetrics } from '../operate/scraping.js';

/** Nodes of one process: connections that arrive where their session is not. */

let peers = createPeers();
let engine = memoryCluster();
beforeEach(() => {
  engine = memoryCluster();
});
afterEach(async () => {
  await peers[Symbol.asyncDispose]();
  peers = createPeers();
});

interface Line {
  readonly event: string;
  readonly [field: string]: unknown;
}
function recorder(): { readonly logger: Logger; readonly lines: Line[] } {
  const lines: Line[] = [];
  const log = (fields: Readonly<Record<string, unknown>>) => lines.push(fields as Line);
  return { lines, logger: { debug: log, info: log, warn: log, error: log } };
}

const EXTENSIONS = { link: '{}', resume: '{}' };
const echo: ServerOptions = {
  async onSession(session) {
    for await (const message of session) await session.send(message.text);
  },
};
const node = (options: ServerOptions = {}) =>
  peers.serve(merged({ engine, features: [cluster()], ...echo }, options));

type Session = Awaited<ReturnType<typeof greet>>;
/** Is cut before the servers close, which would wait for it. */
function raw<Peer extends RawPeer>(peer: Peer): Peer {
  peers.use({
    async [Symbol.asyncDispose]() {
      peer.socket.terminate();
    },
  });
  return peer;
}
const begin = async (url: string, change: Parameters<typeof greet>[1] = {}) =>
  raw(await greet(url, { extensions: EXTENSIONS, ...change }));

/** A connection that asks for a session of another one. */
async function resume(
  url: string,
  { sessionId, resumeToken }: Pick<Session, 'sessionId' | 'resumeToken'>,
  change: Parameters<typeof helloBytes>[0] = {},
  attempt = 1,
): Promise<RawPeer> {
  const peer = raw(await openRaw(url));
  const token = resumeToken as string;
  const offer = { sessionId, token, received: 0, attempt };
  peer.send(helloBytes({ extensions: EXTENSIONS, resume: offer, ...change }));
  return peer;
}

const pages = new WeakMap<Server, string>();
async function metric(server: Server, name: string): Promise<number> {
  const url = pages.get(server) ?? (await server.listenMetrics()).url;
  pages.set(server, url);
  const text = await textOfMetrics(url);
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
}

describe('a connection that resumes a session of another node', () => {
  it('continues with it there, and the landing node has no session', async () => {
    const { lines, logger } = recorder();
    const a = await node();
    const b = await node({ logger });
    const first = await begin(a.url);
    first.socket.terminate();
    const led = await resume(b.url, first);
    const { sessionId, payload } = await led.control('ACCEPT');
    expect(sessionId).toBe(first.sessionId);
    expect(payload.resume?.recovered).toBe(true);
    expect([a.server.sessions.size, b.server.sessions.size]).toEqual([1, 0]);
    expect(lines.filter(({ event }) => event === 'session.led')).toMatchObject([
      { session: first.sessionId, node: first.sessionId.slice(5, 11) },
    ]);
    expect(await metric(b.server, 'parlance_led_connections')).toBe(1);
    led.socket.terminate();
    await expect.poll(() => metric(b.server, 'parlance_led_connections')).toBe(0);
    await expect.poll(() => a.server.sessions.get(first.sessionId)?.state).toBe('suspended');
  });

  it('carries what both ends say, through any number of moves', async () => {
    const servers = [await node(), await node(), await node()];
    let target = 0;
    const proxy = peers.use(await createCuttingProxy(() => servers[target]?.port as number));
    const session = await peers.dial(`ws://127.0.0.1:${proxy.port}/session`, {
      reconnect: { minDelayMs: 1, maxDelayMs: 20 },
    });
    const { id } = session;
    const messages = session[Symbol.asyncIterator]();
    for (let i = 0; i < 30; i++) {
      await session.send(String(i));
      target = i % 3;
      if (i % 2 === 1) proxy.cut();
      expect((await messages.next()).value?.text).toBe(String(i));
    }
    expect(session.id).toBe(id);
    expect(servers.map(({ server }) => server.sessions.size)).toEqual([1, 0, 0]);
  });

  it('may resume with the JSON subprotocol no more than at its own node', async () => {
    const a = await node();
    const b = await node();
    const first = await begin(a.url);
    const other = raw(await openRaw(b.url, {}, 'm2m.v1.json'));
    const offer = { session_id: first.sessionId, token: first.resumeToken, received: 0, attempt: 1 };
    const payload = {
      version: '1.0',
      algorithms: ['NONE'],
      encodings: [],
      extensions: EXTENSIONS,
      resume: offer,
    };
    other.send(JSON.stringify({ type: 'HELLO', session_id: null, timestamp: 1, payload }));
    await expect.poll(() => other.received.length).toBeGreaterThan(0);
    expect(JSON.parse(other.received[0] as string)).toMatchObject({ type: 'ACCEPT' });
    expect(JSON.parse(other.received[0] as string).session_id).not.toBe(first.sessionId);
    expect([a.server.sessions.size, b.server.sessions.size]).toEqual([1, 1]);
  });

  it.each<[string, Parameters<typeof helloBytes>[0], string | undefined]>([
    ['with a wrong token', {}, 'wrong'],
    ['of another principal', { auth: { token: 'bob' } }, undefined],
    ['of another agent', { agentId: 'other' }, undefined],
  ])('begins a new one where it has arrived: %s', async (_what, change, wrongToken) => {
    const authenticate: ServerOptions['authenticate'] = ({ token = '', agentId }) => ({
      principal: token,
      agentId,
    });
    const a = await node({ authenticate });
    const b = await node({ authenticate });
    const first = await begin(a.url, { auth: { token: 'alice' } });
    const resumeToken = wrongToken ?? first.resumeToken;
    const other = await resume(b.url, { ...first, resumeToken }, { auth: { token: 'alice' }, ...change });
    const { sessionId, payload } = await other.control('ACCEPT');
    expect(sessionId).not.toBe(first.sessionId);
    expect(payload.resume).toMatchObject({ recovered: false, reason: 'unknown_session' });
    expect([a.server.sessions.size, b.server.sessions.size]).toEqual([1, 1]);
    expect(a.server.sessions.get(first.sessionId)?.state).toBe('established');
  });

  it('is told why its session cannot continue, by the node that has it', async () => {
    const a = await node();
    const b = await node();
    const first = await begin(a.url);
    const other = await resume(b.url, first, { algorithms: ['NONE'] });
    const { payload } = await other.control('ACCEPT');
    expect(payload.resume).toMatchObject({ recovered: false, reason: 'other_offer' });
    expect(b.server.sessions.size).toBe(1);
  });

  it('is closed with 4410 if its attempt is not the newest', async () => {
    const a = await node();
    const b = await node();
    const first = await begin(a.url);
    const led = await resume(b.url, first, {}, 5);
    await led.control('ACCEPT');
    const stale = await resume(b.url, first, {}, 5);
    expect((await stale.closed).code).toBe(CloseCode.STALE_ATTEMPT);
  });

  it('is closed with 4409 when another one carries the session, at whichever node', async () => {
    const a = await node();
    const b = await node();
    const c = await node();
    const first = await begin(a.url);
    const second = await resume(b.url, first, {}, 1);
    const resumeToken = (await second.control('ACCEPT')).payload.resume?.token;
    expect((await first.closed).code).toBe(CloseCode.TAKEN_OVER);
    const third = await resume(c.url, { ...first, resumeToken }, {}, 2);
    const next = (await third.control('ACCEPT')).payload.resume?.token;
    expect((await second.closed).code).toBe(CloseCode.TAKEN_OVER);
    const fourth = await resume(a.url, { ...first, resumeToken: next }, {}, 3);
    await fourth.control('ACCEPT');
    expect((await third.closed).code).toBe(CloseCode.TAKEN_OVER);
  });

  it.each([
    [1001, 'suspended'],
    [1005, 'suspended'],
    [4411, 'suspended'],
    [4000, undefined],
  ])('closed by its client with %d leaves the session %s', async (code, state) => {
    const a = await node();
    const b = await node();
    const first = await begin(a.url);
    const led = await resume(b.url, first);
    await led.control('ACCEPT');
    if (code === 1005) led.socket.close();
    else led.socket.close(code, 'why');
    await expect.poll(() => a.server.sessions.get(first.sessionId)?.state).toBe(state);
  });

  it('is authenticated by the node where it arrives, once, and not by the other one', async () => {
    let [atA, atB] = [0, 0];
    const a = await node({ authenticate: () => ({ principal: `p${atA++ && 0}` }) });
    const b = await node({ authenticate: () => ({ principal: `p${atB++ && 0}` }) });
    const first = await begin(a.url);
    const led = await resume(b.url, first);
    expect((await led.control('ACCEPT')).sessionId).toBe(first.sessionId);
    expect([atA, atB]).toEqual([1, 1]);
    await expect.poll(() => a.server.sessions.get(first.sessionId)?.principal).toBe('p0');
  });

  it('is refused by the node where it arrives if its credentials are wrong, and the other one hears nothing', async () => {
    const { lines, logger } = recorder();
    const authenticate: ServerOptions['authenticate'] = ({ token }) =>
      token === 'right' ? { principal: 'p' } : null;
    const a = await node({ authenticate, logger });
    const b = await node({ authenticate });
    const first = await begin(a.url, { auth: { token: 'right' } });
    const before = lines.length;
    const wrong = await resume(b.url, first, { auth: { token: 'wrong' } });
    await wrong.control('REJECT');
    expect((await wrong.closed).code).toBe(CloseCode.UNAUTHENTICATED);
    expect(lines).toHaveLength(before);
  });

  it('renews its credentials with the origin that the landing node saw', async () => {
    const seen: (string | undefined)[] = [];
    const authenticate: ServerOptions['authenticate'] = ({ token = '', headers }) => {
      seen.push(headers['x-from'] as string | undefined);
      return { principal: 'p', expiresAt: token === 'brief' ? Date.now() + 60_000 : undefined };
    };
    const a = await node({ authenticate });
    const b = await node({ authenticate });
    const first = await begin(a.url, { auth: { token: 'brief' } });
    const led = raw(await openRaw(b.url, { headers: { 'x-from': 'b' } }));
    const token = first.resumeToken as string;
    const offer = { sessionId: first.sessionId, token, received: 0, attempt: 1 };
    led.send(helloBytes({ extensions: EXTENSIONS, resume: offer, auth: { token: 'brief' } }));
    await led.control('ACCEPT');
    expect((await led.control('AUTH')).payload).toMatchObject({ expiresAt: expect.any(Number) });
    expect(seen).toEqual([undefined, 'b']);
    led.send(
      encodeControl({
        type: 'AUTH',
        sessionId: first.sessionId,
        timestamp: 1,
        payload: { token: 'new' },
      }),
    );
    expect((await led.control('AUTH')).payload).toEqual({ expiresAt: null });
    expect(seen).toEqual([undefined, 'b', 'b']);
  });
});

describe('a ticket', () => {
  /** Says to the owner what a landing node would say, with the secret that all nodes have. */
  async function pass(
    owner: { readonly address: string; readonly incarnation: string },
    said: Uint8Array,
    change: Partial<ClientOfTicket>,
  ): Promise<RawPeer> {
    const secrets = [Buffer.from(engine.secret ?? '')];
    const tickets = new Tickets({ secrets, incarnation: 'source', now: Date.now });
    const client: ClientOfTicket = {
      sessionId: '',
      helloDigest: digestOf(said),
      subprotocol: 'm2m.v1',
      identity: { principal: 'alice' },
      ip: '127.0.0.1',
      headers: {},
      isForwarded: false,
      ...change,
    };
    const authorization = `Parlance ${tickets.issue(owner.incarnation, client)}`;
    const peer = raw(await openRaw(`${owner.address}/parlance/peer`, { headers: { authorization } }));
    peer.send(said);
    return peer;
  }

  async function setUp() {
    const { lines, logger } = recorder();
    const { server, url } = await node({ logger, authenticate: ({ token = '' }) => ({ principal: token }) });
    const line = lines.find(({ event }) => event === 'node.listening');
    const owner = { address: String(line?.['address']), incarnation: String(line?.['node']) };
    const alice = await begin(url, { auth: { token: 'alice' } });
    const bob = await begin(url, { auth: { token: 'bob' } });
    const helloFor = ({ sessionId, resumeToken }: Session) => {
      const token = resumeToken as string;
      return helloBytes({ extensions: EXTENSIONS, resume: { sessionId, token, received: 0, attempt: 1 } });
    };
    return { server, lines, owner, alice, bob, helloFor };
  }

  it('resumes the session that it is for', async () => {
    const { owner, alice, helloFor } = await setUp();
    const peer = await pass(owner, helloFor(alice), { sessionId: alice.sessionId });
    expect((await peer.control('ACCEPT')).payload.resume?.recovered).toBe(true);
  });

  it.each([
    ['another HELLO', { helloDigest: digestOf('another') }],
    ['another session', undefined],
  ])('for %s ends the connection, and resumes nothing', async (_what, change) => {
    const { server, lines, owner, alice, bob, helloFor } = await setUp();
    const { sessionId } = change === undefined ? bob : alice;
    const peer = await pass(owner, helloFor(alice), { sessionId, ...change });
    expect((await peer.closed).code).toBe(CloseCode.UNAUTHENTICATED);
    expect(lines.filter(({ event }) => event === 'peer.refused')).toMatchObject([{ reason: 'other_hello' }]);
    expect(server.sessions.get(alice.sessionId)?.state).toBe('established');
    expect(server.sessions.size).toBe(2);
  });

  it('for another principal resumes nothing, and begins nothing', async () => {
    const { server, owner, alice, helloFor } = await setUp();
    const identity = { principal: 'bob' };
    const peer = await pass(owner, helloFor(alice), { sessionId: alice.sessionId, identity });
    expect(await peer.closed).toEqual({ code: 4900, reason: 'unknown_session' });
    expect(server.sessions.size).toBe(2);
  });
});

describe('a kept reply', () => {
  it('is followed through any node in any session of its principal', async () => {
    const options: ServerOptions = {
      authenticate: () => ({ principal: 'p' }),
      async *onRequest(_request, { keep }) {
        keep({ name: 'chat' });
        yield 'kept';
      },
    };
    const a = await node(options);
    const b = await node(options);
    let target = a.port;
    const proxy = peers.use(await createCuttingProxy(() => target));
    const session = await peers.dial(`ws://127.0.0.1:${proxy.port}/session`, {
      reconnect: { minDelayMs: 1, maxDelayMs: 20 },
    });
    await session.request('go');
    target = b.port;
    proxy.cut();
    const followed: string[] = [];
    for await (const part of session.follow('chat')) followed.push(part.text);
    expect(followed).toEqual(['kept']);
    expect(await metric(b.server, 'parlance_led_connections')).toBe(1);

    const other = await peers.dial(b.url);
    for await (const part of other.follow('chat')) followed.push(part.text);
    expect(followed).toEqual(['kept', 'kept']);
  });
});

describe('a node that shuts down', () => {
  it('sends the connections that it leads to others, and takes no more', async () => {
    const a = await node();
    const b = await node();
    const first = await begin(a.url);
    const led = await resume(b.url, first);
    const resumeToken = (await led.control('ACCEPT')).payload.resume?.token;
    await expect(b.server.drain({ timeoutMs: 60_000, returnWithinMs: 0 })).resolves.toMatchObject({
      ended: 0,
    });
    expect(await led.closed).toEqual({ code: 1012, reason: 'this node is shutting down' });
    await expect.poll(() => a.server.sessions.get(first.sessionId)?.state).toBe('suspended');
    const again = await resume(a.url, { ...first, resumeToken }, {}, 2);
    expect((await again.control('ACCEPT')).payload.resume?.recovered).toBe(true);
  });

  it('sends new connections to other nodes, while it still listens', async () => {
    const a = await node();
    const b = await node({ onRequest: () => new Promise(() => {}) });
    const first = await begin(a.url);
    const busy = await peers.dial(b.url);
    busy.request('for ever').catch(() => {});
    await expect.poll(() => busy.stats().openStreams).toBe(1);
    const drained = b.server.drain({ timeoutMs: 2_000, returnWithinMs: 0 });
    // A balancer tries the next node.
    const status = () => openRaw(b.url).then(raw, ({ message }: Error) => message);
    await expect.poll(status).toBe('Unexpected server response: 503');
    await drained;
    expect(a.server.sessions.get(first.sessionId)?.state).toBe('established');
  });

  it('lets streams finish and then hands over the sessions whose connections are led to it', async () => {
    let finish = () => {};
    const finished = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const a = await node({
      async *onRequest() {
        yield 'begun ';
        await finished;
        yield 'done';
      },
    });
    const b = await node();
    let target = a.port;
    const proxy = peers.use(await createCuttingProxy(() => target));
    const session = await peers.dial(`ws://127.0.0.1:${proxy.port}/session`, {
      reconnect: { minDelayMs: 1, maxDelayMs: 20 },
    });
    const idle = await begin(a.url);
    const { id } = session;
    const stream = session.stream('go')[Symbol.asyncIterator]();
    expect((await stream.next()).value?.text).toBe('begun ');
    target = b.port;
    proxy.cut();
    await session.flush();
    const resumed = async () => await metric(b.server, 'parlance_led_connections');
    await expect.poll(resumed).toBe(1);

    const drained = a.server.drain({ timeoutMs: 60_000, returnWithinMs: 0 });
    const resumed2 = await resume(b.url, idle);
    expect((await resumed2.control('ACCEPT')).payload.resume?.recovered).toBe(true);
    await expect.poll(() => b.server.sessions.has(idle.sessionId)).toBe(true);
    expect(a.server.sessions.has(id)).toBe(true);
    finish();
    expect((await stream.next()).value?.text).toBe('done');
    expect((await stream.next()).done).toBe(true);
    expect(await drained).toEqual({ ended: 0, interrupted: 0, lost: 0, moved: 2 });
    expect([session.id, session.state]).toEqual([id, 'established']);
    expect(b.server.sessions.has(session.id)).toBe(true);
  });

  it('ends the sessions of led connections in order when it closes', async () => {
    const a = await node();
    const b = await node();
    let target = a.port;
    const proxy = peers.use(await createCuttingProxy(() => target));
    const session = await peers.dial(`ws://127.0.0.1:${proxy.port}/session`, {
      reconnect: { minDelayMs: 1, maxDelayMs: 20 },
    });
    target = b.port;
    proxy.cut();
    await expect.poll(() => metric(b.server, 'parlance_led_connections')).toBe(1);
    await session.send('to the owner');
    await session.flush();
    await a.server.close({ sessions: 'end' });
    await expect.poll(() => session.state).toBe('closed');
    expect(await metric(b.server, 'parlance_led_connections')).toBe(0);
    await expect.poll(() => metric(b.server, 'parlance_cluster_nodes')).toBe(1);
  });

  it('is known to be gone at once, so its clients begin new sessions', async () => {
    const a = await node();
    const b = await node();
    const first = await begin(a.url);
    first.socket.terminate();
    await a.server.close();
    const other = await resume(b.url, first);
    const { sessionId, payload } = await other.control('ACCEPT');
    expect(payload.resume).toMatchObject({ recovered: false, reason: 'unknown_session' });
    expect(sessionId?.slice(5, 11)).not.toBe(first.sessionId.slice(5, 11));
  });
});

describe('limits', () => {
  it('of sessions of an address count led connections at the node where they arrive, up to n', async () => {
    const a = await node();
    const b = await node({ limits: { sessionsPerIp: 2 } });
    const sessions = [await begin(a.url), await begin(a.url), await begin(a.url)];
    const led: RawPeer[] = [];
    for (const session of sessions.slice(0, 2)) {
      const peer = await resume(b.url, session);
      await peer.control('ACCEPT');
      led.push(peer);
    }
    const refused = await resume(b.url, sessions[2] as Session);
    expect((await refused.control('REJECT')).payload).toMatchObject({ code: 'RATE_LIMITED' });
    led[0]?.socket.close();
    await expect.poll(() => metric(b.server, 'parlance_led_connections')).toBe(1);
    const admitted = await resume(b.url, sessions[2] as Session, {}, 2);
    expect((await admitted.control('ACCEPT')).payload.resume?.recovered).toBe(true);
  });

  it('of the owner are not used up by led connections', async () => {
    const limits = { sessionsPerIp: 1, handshakesPerIp: 1, connectionsPerMinutePerIp: 1 };
    const a = await node({ limits });
    const b = await node();
    const first = await begin(a.url);
    let { resumeToken } = first;
    for (let attempt = 1; attempt <= 5; attempt++) {
      const led = await resume(b.url, { ...first, resumeToken }, {}, attempt);
      const { payload } = await led.control('ACCEPT');
      expect(payload.resume?.recovered).toBe(true);
      resumeToken = payload.resume?.token;
      led.socket.terminate();
    }
  });

  it('of a message hold where it arrives: one that is too long ends the session', async () => {
    const a = await node();
    const b = await node();
    const first = await begin(a.url);
    const led = await resume(b.url, first);
    await led.control('ACCEPT');
    // The beginning of a message of 8 MiB; a frame of the link has at most 4.
    const { _socket: socket } = led.socket as unknown as { readonly _socket: Socket };
    const head = Buffer.from([0x82, 0xff, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0]);
    socket.write(Buffer.concat([head, Buffer.alloc(4.5 * 1024 * 1024)]));
    expect((await led.closed).code).toBe(CloseCode.TOO_LARGE);
    await expect.poll(() => a.server.sessions.size).toBe(0);
  });
});

describe('readiness', () => {
  it('begins when the node is a member, and no session before', async () => {
    let isThere = false;
    const lazy: Engine = {
      ...engine,
      connect() {
        const link = engine.connect();
        return {
          ...link,
          renew: async (...announced) => {
            if (!isThere) throw new Error('the engine is gone');
            return await link.renew(...announced);
          },
        };
      },
    };
    const { lines, logger } = recorder();
    const { server, url, port } = await node({ engine: lazy, logger });
    const ready = async () => (await fetch(`http://127.0.0.1:${port}/readyz`)).status;
    expect(await ready()).toBe(503);
    expect((await fetch(`http://127.0.0.1:${port}/healthz`)).status).toBe(200);
    const early = raw(await openRaw(url));
    early.send(helloBytes({ extensions: EXTENSIONS }));
    expect((await early.control('REJECT')).payload).toMatchObject({
      code: 'SERVER_BUSY',
      message: 'the server has not joined its cluster yet',
    });
    expect(lines.filter(({ event }) => event === 'engine.stalled')).toHaveLength(1);
    isThere = true;
    await expect.poll(ready).toBe(200);
    await begin(url);
    expect(server.sessions.size).toBe(1);
  });

  it('never begins with an engine that is unsuitable: the server does not listen', async () => {
    const old: Engine = {
      ...engine,
      connect: () => ({
        ...engine.connect(),
        renew: () => Promise.reject(new ProtocolError('unsupported', 'too old')),
      }),
    };
    const server = peers.use(createServer({ engine: old, features: [cluster()] }));
    expect(await failure(server.listen())).toMatchObject({ code: 'unsupported', message: 'too old' });
  });
});

it('a server that is closed while it joins leaves no port open', async () => {
  const { lines, logger } = recorder();
  const server = createServer({ engine, features: [cluster()], logger });
  const listening = server.listen().catch(() => {});
  await server.close();
  await listening;
  expect(lines.map(({ event }) => event)).not.toContain('node.listening');
  await server.close();
});

describe('without a cluster', () => {
  it('session IDs name the process alone, there are no metrics of a node, and nothing else listens', async () => {
    const { lines, logger } = recorder();
    const { server, url } = await peers.serve({ logger });
    const first = await begin(url);
    expect(first.sessionId).toMatch(/^sess_[A-Za-z0-9]{20}$/);
    expect(lines.map(({ event }) => event)).toEqual([
      'server.unauthenticated',
      'server.listening',
      'session.accepted',
    ]);
    const { url: metrics } = await server.listenMetrics();
    const text = await (await fetch(metrics)).text();
    expect(text).toContain('parlance_connections 1');
    expect(text).not.toMatch(/parlance_(cluster|led)_/);
    const second = await begin(url);
    const other = await begin((await peers.serve()).url);
    const [named, again, others] = [first, second, other].map(({ sessionId }) => incarnationOf(sessionId));
    expect(again).toBe(named);
    expect(others).not.toBe(named);
    expect(second.sessionId).not.toBe(first.sessionId);
  });
});
