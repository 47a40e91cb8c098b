import { setTimeout as pause } from 'node:timers/promises';
import type { Session } from '@parlance/client';
import { ProtocolError } from '@parlance/protocol';
import { endpointOf } from '@parlance/protocol/internal';
import {
  agents,
  cluster,
  type Engine,
  memoryCluster,
  type Server,
  type ServerOptions,
} from '@parlance/server';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { decodeLinkMessage, encodeLinkMessage } from '../../../packages/server/src/cluster/link/message.js';
import { PATHS } from '../../../packages/server/src/cluster/peer-port.js';
import { CLUSTER } from '../../../packages/server/src/cluster/service.js';
import { Tickets } from '../../../packages/server/src/cluster/ticket.js';
import type { SessionServer } from '../../../packages/server/src/server/server.js';
import type { ServerEndpoint } from '../../../packages/server/src/session/endpoint.js';
import { freePort } from '../kit/cli-process.js';
import { type CuttingProxy, createCuttingProxy } from '../kit/cutting-proxy.js';
import { createPeers, failure, openRaw } from '../kit/peers.js';
import { merged } from '../kit/server-options.js';
import { createWatchingProxy } from '../kit/watching-proxy.js';

/** Sessions that go from node to node while their clients use them. */

const SECRET = 'sixteen bytes or more';

let peers = createPeers();
let engine = memoryCluster();
beforeEach(() => {
  engine = memoryCluster();
});
afterEach(async () => {
  await peers[Symbol.asyncDispose]();
  peers = createPeers();
});

const LOGS = process.env['MOVE_LOGS'] !== undefined;
const logger = (name: string) => {
  const log = (fields: object, message: string) => {
    if (LOGS) console.log(name, JSON.stringify(fields), message);
  };
  return { debug: log, info: log, warn: log, error: log };
};
let started = 0;
const serve = (options: ServerOptions = {}) =>
  peers.serve(merged({ engine, features: [cluster()], logger: logger(`node ${started++}`) }, options));

/** A client of the first node whose connection has come back to the second one. */
async function led(options: ServerOptions, client: Parameters<typeof peers.dial>[1] = {}) {
  const count = 2;
  const servers = await Promise.all(Array.from({ length: count }, () => serve(options)));
  let target = 0;
  const proxy = peers.use(await createCuttingProxy(() => servers[target]?.port as number));
  const session = await peers.dial(`ws://127.0.0.1:${proxy.port}/session`, {
    reconnect: { minDelayMs: 1, maxDelayMs: 20 },
    ...client,
  });
  target = 1;
  const resumed = new Promise<void>((resolve) => {
    const stop = session.on('state', (state) => {
      if (state !== 'established') return;
      stop();
      resolve();
    });
  });
  proxy.cut();
  await resumed;
  return {
    servers: servers.map(({ server }) => server),
    urls: servers.map(({ url }) => url),
    session,
    proxy,
    go(to: number) {
      target = to;
    },
  };
}

/** Says every number that it hears, with the number of those before it that the session has heard. */
const counting: ServerOptions = {
  async onSession(session) {
    for await (const message of session) {
      const heard = (session.data as number | undefined) ?? 0;
      session.data = heard + 1;
      await session.send(`${message.text} after ${heard}`);
    }
  },
  async *onRequest(request, { metadata }) {
    const { parts = '1', pauseMs = '0' } = metadata as Record<string, string>;
    for (let i = 0; i < Number(parts); i++) {
      yield `${i} of ${request.text.slice(0, 8)} ${request.text.length}; `;
      await pause(Number(pauseMs));
    }
  },
};

/** Uses a session until `isOver`, and returns what was wrong. */
async function useSession(session: Session, isOver: () => boolean, random: () => number): Promise<string[]> {
  const faults: string[] = [];
  let said = 0;
  let heard = 0;
  const listen = (async () => {
    for await (const message of session) {
      const expected = `${heard} after ${heard}`;
      if (message.text !== expected) faults.push(`heard ${message.text} and not ${expected}`);
      heard++;
      if (isOver() && heard === said) return;
    }
  })();
  const talk = async () => {
    while (!isOver()) {
      for (let i = random() * 4; i > 0; i--) await session.send(String(said++));
      await pause(random() * 8);
    }
    await session.send(String(said++));
  };
  let asked = 0;
  const ask = async () => {
    while (!isOver()) {
      const parts = Math.floor(random() * 12);
      const text =
        `${asked++}`.padStart(8, '0') + 'the same question again and again '.repeat(random() * 300);
      const expected = Array.from(
        { length: parts },
        (_, i) => `${i} of ${text.slice(0, 8)} ${text.length}; `,
      );
      let reply = '';
      const metadata = { parts: String(parts), pauseMs: String(Math.floor(random() * 4)) };
      for await (const part of session.stream(text, { metadata })) reply += part.text;
      if (reply !== expected.join('')) faults.push(`reply ${reply} and not ${expected.join('')}`);
      await pause(random() * 20);
    }
  };
  await Promise.all([talk(), ask(), ask(), listen]);
  return faults;
}

const sizes = (servers: readonly Server[]) => servers.map(({ sessions }) => sessions.size);

describe('a session that another node leads', () => {
  it('continues there when its own node drains, and the client notices nothing', async () => {
    const { servers, session, proxy } = await led({
      async onSession(each) {
        for await (const message of each) {
          each.data = [...((each.data as string[] | undefined) ?? []), message.text];
          await each.send(JSON.stringify({ data: each.data, isMoved: each.isMoved }));
        }
      },
      async *onRequest(request) {
        yield request.text;
        yield '!';
      },
    });
    const states: string[] = [];
    session.on('state', (state) => void states.push(state));
    const messages = session[Symbol.asyncIterator]();
    await session.send('one');
    expect((await messages.next()).value?.json()).toEqual({ data: ['one'], isMoved: false });
    expect((await session.request('hello')).text).toBe('hello!');
    const before = proxy.opened;
    const drained = await servers[0]?.drain({ timeoutMs: 5_000 });
    expect(drained).toEqual({ ended: 0, interrupted: 0, lost: 0, moved: 1 });
    expect(sizes(servers)).toEqual([0, 1]);
    await session.send('two');
    expect((await messages.next()).value?.json()).toEqual({ data: ['one', 'two'], isMoved: true });
    expect((await session.request('hello')).text).toBe('hello!');
    expect([states, proxy.opened]).toEqual([[], before]);
  });
});

describe('sessions in use', () => {
  it.each([1, 2, 3])('lose, double and reorder nothing when they move (%i)', async () => {
    const servers = await Promise.all([0, 1, 2].map(() => serve(counting)));
    let from = 0;
    const proxy = peers.use(await createCuttingProxy(() => servers[from]?.port as number));
    const options = { reconnect: { minDelayMs: 1, maxDelayMs: 20 } };
    const sessions = await Promise.all(
      Array.from({ length: 12 }, () => peers.dial(`ws://127.0.0.1:${proxy.port}/session`, options)),
    );
    from = 1;
    let isOver = false;
    const used = sessions.map((session) => useSession(session, () => isOver, Math.random));
    await pause(50 + Math.random() * 50);
    proxy.cut();
    await pause(200);
    const ids = sessions.map(({ id }) => id);
    const drained = await servers[0]?.server.drain({ timeoutMs: 6_000 });
    expect(drained).toEqual({ ended: 0, interrupted: 0, lost: 0, moved: 12 });
    // Moved sessions are found at their new node, and move again.
    from = 2;
    proxy.cut();
    await pause(200);
    // Those that had no connection went to either of the others.
    const there = servers[1]?.server.sessions.size;
    expect(await servers[1]?.server.drain({ timeoutMs: 6_000 })).toMatchObject({ lost: 0, moved: there });
    isOver = true;
    expect((await Promise.all(used)).flat()).toEqual([]);
    expect(sessions.map(({ id }) => id)).toEqual(ids);
    expect(servers.map(({ server }) => server.sessions.size)).toEqual([0, 0, 12]);
  });
});

/** A cluster whose engine fails at random when a session is to be moved, before it has written that and afterwards. */
function unreliable(inner: Engine, random: () => number, isOver: () => boolean): Engine {
  const fails = (percent: number) => {
    if (!isOver() && random() * 100 < percent)
      throw new ProtocolError('timeout', 'the engine does not answer');
  };
  return {
    ...inner,
    connect: () => {
      const link = inner.connect();
      return {
        ...link,
        async moveSession(sessionId, move) {
          fails(15);
          await pause(random() * 10);
          const record = await link.moveSession(sessionId, move);
          fails(15);
          return record;
        },
      };
    },
  };
}

/** Asks one question after another, each in the turn in which it has read the end of the last answer. */
function hurry(session: Session, isOver: () => boolean) {
  const faults: string[] = [];
  let asked = 0;
  const asking = (async () => {
    while (!isOver()) {
      let reply = '';
      for await (const part of session.stream(String(asked))) reply += part.text;
      if (reply !== `${asked}.0 ${asked}.1 `) faults.push(reply);
      asked++;
    }
  })();
  return {
    get asked() {
      return asked;
    },
    async end() {
      await asking;
      return faults;
    },
  };
}

/** The first server knows that its link to the second one is open. */
function isReady(servers: readonly { readonly server: object }[]): boolean {
  const [own, other] = servers.map(({ server }) => (server as SessionServer).features.use(CLUSTER));
  return own?.links.ready(other?.incarnation as string) !== undefined;
}

describe('a client that asks its next question when it reads the end of an answer', () => {
  it.each([['of anyone'], ['of agents']])('waits with it for the next node: sessions %s', async (whose) => {
    const named: ServerOptions =
      whose === 'of agents'
        ? { authenticate: ({ token = '' }) => ({ principal: 'ali', agentId: token }), features: [agents()] }
        : {};
    let begunFirst = 0;
    let go = () => {};
    const gate = new Promise<void>((resolve) => {
      go = resolve;
    });
    const answers = (isFirst: boolean): ServerOptions => ({
      ...named,
      async *onRequest(request) {
        yield `${request.text}.0 `;
        if (isFirst) begunFirst++;
        if (isFirst) await gate;
        yield `${request.text}.1 `;
      },
    });
    const port = Number(await freePort());
    // Links on which sessions can move.
    let ways = 0;
    const way = peers.use(
      await createWatchingProxy(port, ({ text, pair }) => {
        pair.isAwaited ||= text.startsWith('GET /parlance/link');
        if (pair.isAwaited && text.startsWith('HTTP/1.1 101')) ways++;
        return 'pass';
      }),
    );
    const node = { listen: { port }, advertise: `ws://127.0.0.1:${way.port}` };
    const servers = [
      await serve(answers(true)),
      await serve({ ...answers(false), features: [cluster(node)] }),
    ];
    let to = 0;
    const proxy = peers.use(await createCuttingProxy(() => servers[to]?.port as number));
    const sessions = await Promise.all(
      Array.from({ length: 8 }, (_, i) =>
        peers.dial(`ws://127.0.0.1:${proxy.port}/session`, {
          token: `agent-${i}`,
          reconnect: { minDelayMs: 1, maxDelayMs: 20 },
        }),
      ),
    );
    to = 1;
    let isOver = false;
    const clients = sessions.map((session) => hurry(session, () => isOver));
    await expect.poll(() => begunFirst).toBe(8);
    const drained = servers[0]?.server.drain({ timeoutMs: 20_000, returnWithinMs: 0 });
    await expect.poll(() => ways).toBe(1);
    await expect.poll(() => isReady(servers)).toBe(true);
    // They come to the second node in turn.
    const left = [...(servers[0]?.server.sessions.values() ?? [])].map(endpointOf) as ServerEndpoint[];
    await expect.poll(() => left.filter(({ proxiedBy }) => proxiedBy !== undefined)).toHaveLength(8);
    go();
    expect(await drained).toEqual({ ended: 0, interrupted: 0, lost: 0, moved: 8 });
    isOver = true;
    expect((await Promise.all(clients.map((client) => client.end()))).flat()).toEqual([]);
    expect(begunFirst).toBe(8);
    expect(clients.every(({ asked }) => asked > 1)).toBe(true);
  });
});

describe('a move that breaks', () => {
  it.each([1, 2, 3])('leaves each session at one node, and loses nothing (%i)', async () => {
    const random = Math.random;
    let isCalm = false;
    const shared = unreliable(engine, random, () => isCalm);
    const legs: CuttingProxy[] = [];
    const servers = await Promise.all(
      [0, 1, 2].map(async () => {
        const peerPort = Number(await freePort());
        const leg = peers.use(await createCuttingProxy(peerPort));
        legs.push(leg);
        const node = { listen: { port: peerPort }, advertise: `ws://127.0.0.1:${leg.port}` };
        return await serve({ ...counting, engine: shared, features: [cluster(node)] });
      }),
    );
    let to = [0];
    const proxy = peers.use(
      await createCuttingProxy(() => servers[to[Math.floor(random() * to.length)] as number]?.port as number),
    );
    const options = { reconnect: { minDelayMs: 1, maxDelayMs: 50 } };
    const sessions = await Promise.all(
      Array.from({ length: 8 }, () => peers.dial(`ws://127.0.0.1:${proxy.port}/session`, options)),
    );
    const ids = sessions.map(({ id }) => id);
    let isOver = false;
    const used = sessions.map((session) => useSession(session, () => isOver, random));
    await pause(50);
    to = [1, 2];
    const cutting = (async () => {
      for (let i = 0; i < 40; i++) {
        await pause(random() * 60);
        const leg = [...legs, proxy][Math.floor(random() * 4)] as CuttingProxy;
        if (random() < 0.5) leg.cut();
        else leg.cutAfter(Math.floor(random() * 2_000));
      }
      for (const leg of [...legs, proxy]) leg.cutAfter(Infinity);
      isCalm = true;
    })();
    const drained = await servers[0]?.server.drain({ timeoutMs: 20_000, returnWithinMs: 100 });
    await cutting;
    expect(drained).toEqual({ ended: 0, interrupted: 0, lost: 0, moved: 8 });
    isOver = true;
    expect((await Promise.all(used)).flat()).toEqual([]);
    expect(sessions.map(({ id }) => id)).toEqual(ids);
    const owners = ids.map((id) => servers.filter(({ server }) => server.sessions.has(id)).length);
    expect(owners).toEqual(ids.map(() => 1));
  });
});

describe('a session that is connected directly', () => {
  it('opens another connection first, and continues where that arrives', async () => {
    const servers = await Promise.all([serve(counting), serve(counting)]);
    const clients = Array.from({ length: 8 }, async () => {
      // A balancer that asks the next node if one refuses.
      const proxy = peers.use(await createCuttingProxy(() => servers[to]?.port as number));
      return await peers.dial(`ws://127.0.0.1:${proxy.port}/session`, { reconnect: { minDelayMs: 1 } });
    });
    let to = 0;
    const sessions = await Promise.all(clients);
    const ids = sessions.map(({ id }) => id);
    let isOver = false;
    const used = sessions.map((session) => useSession(session, () => isOver, Math.random));
    await pause(100);
    to = 1;
    const drained = servers[0]?.server.drain({ timeoutMs: 10_000, returnWithinMs: 500 });
    expect(await drained).toEqual({ ended: 0, interrupted: 0, lost: 0, moved: 8 });
    isOver = true;
    expect((await Promise.all(used)).flat()).toEqual([]);
    expect(sessions.map(({ id }) => id)).toEqual(ids);
    expect(sizes(servers.map(({ server }) => server))).toEqual([0, 8]);
  });
});

describe('a session without a connection', () => {
  it('waits for its client at another node, and is found there from any', async () => {
    const servers = await Promise.all([0, 1, 2].map(() => serve(counting)));
    let to = 0;
    const proxy = peers.use(await createCuttingProxy(() => servers[to]?.port as number));
    const session = await peers.dial(`ws://127.0.0.1:${proxy.port}/session`, {
      reconnect: { minDelayMs: 1, maxDelayMs: 20 },
    });
    const { id } = session;
    const messages = session[Symbol.asyncIterator]();
    await session.send('0');
    expect((await messages.next()).value?.text).toBe('0 after 0');
    proxy.refuse(true);
    proxy.cut();
    await expect.poll(() => servers[0]?.server.sessions.get(id)?.state).toBe('suspended');
    await session.send('1');
    expect(await servers[0]?.server.drain({ timeoutMs: 5_000 })).toEqual({
      ended: 0,
      interrupted: 0,
      lost: 0,
      moved: 1,
    });
    const parkedAt = servers.findIndex(({ server }) => server.sessions.has(id));
    expect(parkedAt).toBeGreaterThan(0);
    // The other node does not have it, and the first one is gone.
    await servers[0]?.server.close();
    to = 3 - parkedAt;
    proxy.refuse(false);
    expect((await messages.next()).value?.text).toBe('1 after 1');
    expect(session.id).toBe(id);
  });
});

describe('a node that drains', () => {
  it('fails what still runs at its deadline, and hands the session over', async () => {
    let reason: unknown;
    const { servers, session } = await led({
      async *onRequest(_request, { signal }) {
        yield 'begun';
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        reason = signal.reason;
      },
    });
    const { id } = session;
    const stream = session.stream('for ever')[Symbol.asyncIterator]();
    expect((await stream.next()).value?.text).toBe('begun');
    const drained = servers[0]?.drain({ timeoutMs: 300 });
    expect(await failure(stream.next().then(() => stream.next()))).toMatchObject({ code: 'draining' });
    expect(await drained).toEqual({ ended: 0, interrupted: 0, lost: 0, moved: 1 });
    expect(reason).toMatchObject({ code: 'draining' });
    await expect.poll(() => session.state).toBe('established');
    expect([session.id, sizes(servers)]).toEqual([id, [0, 1]]);
  });

  it('moves a session that is never calm at its deadline, and keeps its connection', async () => {
    const refused: string[] = [];
    const ask = (session: Pick<Session, 'request'>) =>
      session.request('for ever').catch(({ code }: ProtocolError) => void refused.push(code));
    const { servers, session, proxy } = await led(
      {
        onSession: (each) => void ask(each),
        async *onRequest(request) {
          yield request.text;
          await pause(20 + Math.random() * 20);
        },
      },
      { onRequest: () => new Promise<string>(() => {}) },
    );
    const { id } = session;
    const states: string[] = [];
    session.on('state', (state) => void states.push(state));
    const [before, faults] = [proxy.opened, [] as string[]];
    let isOver = false;
    // There is always a request under way.
    const loops = [1, 2, 3].map(async (first) => {
      for (let i = first; !isOver; i += 3) {
        const reply = await session.request(`${i}`).catch(({ code }: ProtocolError) => ({ text: code }));
        if (reply.text !== `${i}`) faults.push(reply.text);
      }
    });
    expect(await servers[0]?.drain({ timeoutMs: 1_500 })).toMatchObject({
      moved: 1,
      interrupted: 0,
      lost: 0,
    });
    expect((await session.request('there')).text).toBe('there');
    const there = faults.length;
    isOver = true;
    await Promise.all(loops);
    // At most what was under way at the deadline; replies may have ended just before it.
    expect(faults.filter((code) => code !== 'draining')).toEqual([]);
    expect([there <= 3, faults.length - there, refused]).toEqual([true, 0, ['draining']]);
    expect([states, session.id, proxy.opened, sizes(servers)]).toEqual([[], id, before, [0, 1]]);
  });

  it('does not lead a connection for which it had asked another node before', async () => {
    let begin = () => {};
    let isAsked = false;
    const begun = new Promise<void>((resolve) => {
      begin = resolve;
    });
    const port = Number(await freePort());
    const way = peers.use(
      await createWatchingProxy(port, async ({ text }) => {
        if (!isAsked && text.startsWith('GET /parlance/peer')) {
          isAsked = true;
          await begun;
        }
        return 'pass' as const;
      }),
    );
    const led: number[] = [];
    const logged = (index: number) => {
      const log = ({ event }: { readonly event?: string }) =>
        void (event === 'session.led' && led.push(index));
      return { debug: log, info: log, warn: log, error: log };
    };
    const node = { listen: { port }, advertise: `ws://127.0.0.1:${way.port}` };
    const servers = [
      await serve({ ...counting, features: [cluster(node)] }),
      await serve({ ...counting, logger: logged(1) }),
      await serve({ ...counting, logger: logged(2) }),
    ];
    let to = 0;
    const proxy = peers.use(await createCuttingProxy(() => servers[to]?.port as number));
    const session = await peers.dial(`ws://127.0.0.1:${proxy.port}/session`, {
      reconnect: { minDelayMs: 1, maxDelayMs: 20 },
    });
    const { id } = session;
    to = 1;
    proxy.cut();
    await expect.poll(() => isAsked).toBe(true);
    await servers[1]?.server.drain({ timeoutMs: 5_000 });
    to = 2;
    begin();
    await expect.poll(() => led).toEqual([1, 2]);
    expect((await session.request('hello')).text).toBe('0 of hello 5; ');
    expect(session.id).toBe(id);
  });

  it('keeps a session whose onSession does not return, until the deadline', async () => {
    const signals: AbortSignal[] = [];
    const { servers, session } = await led({
      onRequest: (request) => request.text,
      async onSession({ signal }) {
        signals.push(signal);
        await new Promise(() => {});
      },
    });
    const { id } = session;
    const drained = servers[0]?.drain({ timeoutMs: 2_500 });
    await expect.poll(() => signals[0]?.aborted).toBe(true);
    // It is proxied meanwhile.
    expect((await session.request('still there')).text).toBe('still there');
    expect(await drained).toMatchObject({ moved: 0 });
    await expect.poll(() => session.id !== id && session.state === 'established').toBe(true);
  });

  it('calls onSession again if the session stays, with what it has left', async () => {
    const starts: (readonly unknown[])[] = [];
    const { servers, urls, session } = await led({
      limits: { sessionsPerPrincipal: 1 },
      authenticate: () => ({ principal: 'alice' }),
      async onSession(each) {
        starts.push([each.isMoved, each.data, each.signal.aborted]);
        each.data = starts.length;
        for await (const message of each) await each.send(message.text);
      },
    });
    // The only session that its principal may have at the other node.
    const other = await peers.dial(urls[1] as string);
    expect(other.state).toBe('established');
    const drained = servers[0]?.drain({ timeoutMs: 1_000 });
    await expect.poll(() => starts.length).toBeGreaterThan(2);
    expect(starts.find(([isMoved]) => isMoved === true)).toEqual([true, 1, false]);
    const messages = session[Symbol.asyncIterator]();
    await session.send('heard');
    expect((await messages.next()).value?.text).toBe('heard');
    expect(await drained).toMatchObject({ moved: 0 });
  });

  it('drains clients without resume as before', async () => {
    const servers = await Promise.all([serve(counting), serve(counting)]);
    let to = 0;
    const proxy = peers.use(await createCuttingProxy(() => servers[to]?.port as number));
    const session = await peers.dial(`ws://127.0.0.1:${proxy.port}/session`, {
      extensions: { resume: false },
    });
    const { id } = session;
    to = 1;
    expect(await servers[0]?.server.drain({ timeoutMs: 5_000, returnWithinMs: 0 })).toMatchObject({
      ended: 1,
      moved: 0,
    });
    await expect.poll(() => session.id !== id && session.state === 'established').toBe(true);
  });
});

describe('the link of a move', () => {
  const id = (incarnation: string) => `sess_${incarnation}${'x'.repeat(14)}`;
  const say = (type: string, fields: readonly unknown[], bytes = new Uint8Array(0)) =>
    encodeLinkMessage('moves', type, [7, ...fields], bytes);
  const snapshot = (size: number) => say('snapshot', [id('aaaaaa'), size, 0, 0]);
  const bytes = (...values: readonly number[]) => say('bytes', [], new Uint8Array(values));
  /** Without what says that the node is there. */
  const answersTo = ({ received }: { readonly received: readonly (Uint8Array | string)[] }) =>
    received
      .map(decodeLinkMessage)
      .filter(({ service }) => service === 'moves')
      .map(({ type, fields }) => [type, ...fields]);

  async function port(options: ServerOptions = {}) {
    const lines: { readonly event?: string; readonly node?: string; readonly address?: string }[] = [];
    const log = (fields: object) => void lines.push(fields);
    const node = { secret: SECRET };
    const { server } = await serve({
      ...options,
      features: [cluster(node)],
      logger: { debug: log, info: log, warn: log, error: log },
    });
    const { node: incarnation, address } = lines.find(({ event }) => event === 'node.listening') as Required<
      (typeof lines)[number]
    >;
    const secrets = [Buffer.from(SECRET)];
    const tickets = new Tickets({ secrets, incarnation: 'aaaaaa', now: Date.now });
    const open = async (ticket = tickets.issueFor('link', incarnation)) => {
      const headers = { authorization: `Parlance ${ticket}` };
      const peer = await openRaw(`${address}${PATHS.link}`, { headers });
      peers.use({ [Symbol.asyncDispose]: async () => peer.socket.terminate() });
      return peer;
    };
    return { server, incarnation, tickets, open };
  }

  it('is refused without a ticket of its own kind, and with one that was used', async () => {
    const { tickets, incarnation, open } = await port();
    const used = tickets.issueFor('link', incarnation);
    await open(used);
    const standing = tickets.issueFor('standing', incarnation);
    for (const ticket of [used, standing, tickets.issueFor('link', 'bbbbbb'), 'x.y'])
      await expect(open(ticket)).rejects.toThrow(/401|410/);
  });

  it.each<[string, readonly Uint8Array[], string]>([
    ['a session that is not led', [say('hold', [id('aaaaaa')])], 'invalid_argument'],
    ['an empty session', [snapshot(0)], 'message_too_large'],
    ['a session of 64 MiB and a byte', [snapshot(64 * 1024 ** 2 + 1)], 'message_too_large'],
    ['more than it has announced', [snapshot(3), bytes(1, 2, 3, 4)], 'bad_message'],
    ['another format', [snapshot(1), bytes(99)], 'unknown_version'],
    ['half a snapshot', [snapshot(1), bytes(2)], 'truncated'],
    ['a damaged snapshot', [snapshot(9), bytes(2, 1, 1, 1, 1, 1, 1, 1, 1)], 'bad_checksum'],
  ])('is answered with why: %s', async (_what, messages, code) => {
    const { server, open } = await port();
    const peer = await open();
    for (const message of messages) peer.send(message);
    await expect.poll(() => answersTo(peer)).toEqual([['refused', 7, code, expect.any(String)]]);
    expect(server.sessions.size).toBe(0);
  });

  it.each<[string, string | Uint8Array]>([
    ['text', 'abc'],
    ['an answer', say('taken', [])],
    ['no number', encodeLinkMessage('moves', 'hold', [id('aaaaaa')])],
    ['a service that there is not', encodeLinkMessage('others', 'hold', [7])],
  ])('is ended by %s', async (_what, message) => {
    const { open } = await port();
    const peer = await open();
    peer.send(message);
    expect(await peer.closed).toMatchObject({ code: 1006 });
  });

  it('takes no memory that the process does not have', async () => {
    const { open } = await port({ processMemory: 150 * 1024 ** 2 });
    const size = 60 * 1024 ** 2;
    const peer = await open();
    for (let i = 0; i < 12; i++)
      peer.send(encodeLinkMessage('moves', 'snapshot', [i, id('aaaaaa'), size, 0, 0]));
    await expect.poll(() => answersTo(peer)).not.toEqual([]);
    expect(answersTo(peer)[0]).toEqual(['refused', expect.any(Number), 'over_budget', expect.any(String)]);
  });
});
