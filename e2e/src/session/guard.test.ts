import { createServer as createHttpServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { type ClientOptions, type ClientSession, connect } from '@parlance/client';
import { type Channel, Subprotocol } from '@parlance/protocol';
import { agents, createServer, metrics, type Server, type ServerOptions, scan } from '@parlance/server';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import WebSocket from 'ws';
import type { ServerEndpoint } from '../../../packages/server/src/session/endpoint.js';
import { clientEndpoint, serverEndpoint } from '../kit/endpoints.js';
import { failure } from '../kit/peers.js';

/**
 * The guard at every edge: a fault is planted in one session at each place where nothing of the session is
 * further up the stack. The process survives, another session still works, the session with the fault ends
 * with `internal`, and a log line says where the fault was.
 */

const FAULT = 'a planted fault';
class Fault extends Error {
  override name = 'Fault';
}
const fault = (): never => {
  throw new Fault(FAULT);
};

/** Errors that would have ended the process. */
let fatal: unknown[];
let restore: () => void;

beforeEach(() => {
  fatal = [];
  const events = ['uncaughtException', 'unhandledRejection'] as const;
  const note = (error: unknown) => void fatal.push(error);
  const former = events.map((name) => process.listeners(name as never));
  for (const name of events) {
    process.removeAllListeners(name);
    process.on(name, note);
  }
  restore = () => {
    for (const [i, name] of events.entries()) {
      process.removeAllListeners(name);
      for (const listener of former[i] ?? []) process.on(name as never, listener as never);
    }
  };
});
afterEach(() => restore());

type Line = { readonly level: string; readonly event: unknown; readonly fields: Record<string, unknown> };

class Bench implements AsyncDisposable {
  readonly server: Server;
  readonly url: string;
  readonly port: number;
  readonly sockets: Socket[];
  readonly http: ReturnType<typeof createHttpServer>;
  readonly lines: Line[];
  readonly #open: ClientSession[] = [];

  static async begin(options: ServerOptions = {}): Promise<Bench> {
    const lines: Line[] = [];
    const log = (level: string) => (fields: Readonly<Record<string, unknown>>) =>
      void lines.push({ level, event: fields['event'], fields });
    const server = createServer({
      logger: { debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') },
      authenticate: ({ token }) => ({ principal: 'p', agentId: token }),
      onRequest: (request) => request.text,
      onSession() {},
      ...options,
    });
    const http = createHttpServer((request, response) => {
      if (!server.respond(request, response)) response.writeHead(404).end();
    });
    const sockets: Socket[] = [];
    http.on('connection', (socket) => sockets.push(socket));
    server.attach(http);
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    return new Bench(server, http, sockets, lines);
  }

  private constructor(
    server: Server,
    http: ReturnType<typeof createHttpServer>,
    sockets: Socket[],
    lines: Line[],
  ) {
    this.server = server;
    this.http = http;
    this.sockets = sockets;
    this.lines = lines;
    this.port = (http.address() as AddressInfo).port;
    this.url = `ws://127.0.0.1:${this.port}/session`;
  }

  async dial(name: string, options: ClientOptions = {}): Promise<ClientSession> {
    const session = await connect(this.url, { WebSocket, token: name, agent: {}, ...options });
    this.#open.push(session);
    return session;
  }

  /** The server's side of a session. */
  endpoint(session: ClientSession): ServerEndpoint {
    return serverEndpoint(this.server.sessions.get(session.id));
  }

  /** A session that has nothing to do with the fault still gets answers. */
  async expectAlive(neighbour: ClientSession): Promise<void> {
    expect((await neighbour.request('still there?')).text).toBe('still there?');
    // By now all microtasks and rejected promises have had their turn.
    await new Promise((resolve) => setTimeout(resolve, 0));
    await new Promise((resolve) => setImmediate(resolve));
    expect(fatal).toEqual([]);
  }

  async expectLogged(event: string): Promise<void> {
    await expect.poll(() => this.lines.map((line) => line.event)).toContain(event);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const session of this.#open) await session.close();
    await this.server.close();
    this.http.closeAllConnections();
    await new Promise((resolve) => this.http.close(resolve));
  }
}

/** The error that ends a client's session. */
const endOf = (session: ClientSession) =>
  new Promise<{ code: string; closeCode: number }>((resolve) =>
    session.on('error', (error) => resolve({ code: error.code, closeCode: error.closeCode })),
  );

/** Replaces methods of the core by a fault. */
function plant(
  endpoint: Pick<ServerEndpoint, 'core'>,
  ...methods: (keyof ServerEndpoint['core'] | keyof Channel)[]
): void {
  const { core } = endpoint;
  for (const method of methods) Object.assign(method in core ? core : core.channel, { [method]: fault });
}

interface Setting {
  readonly bench: Bench;
  readonly faulty: ClientSession;
  readonly endpoint: ServerEndpoint;
  readonly neighbour: ClientSession;
}

interface Entry {
  readonly name: string;
  readonly server?: ServerOptions;
  readonly client?: ClientOptions;
  /** Plants the fault and triggers it. */
  readonly provoke: (setting: Setting) => unknown;
}

const ENTRIES: readonly Entry[] = [
  {
    name: 'a message of the wire',
    async provoke({ endpoint, faulty }) {
      plant(endpoint, 'handleMessage');
      await faulty.send('hello');
    },
  },
  {
    name: 'an event of the core, and the answer to a frame',
    provoke({ endpoint, faulty }) {
      plant(endpoint, 'pollEvent');
      Object.defineProperty(endpoint.core, 'hasEvents', { get: fault });
      void faulty.send('hello');
    },
  },
  {
    name: 'a frame on which the core itself fails',
    async provoke({ endpoint, faulty }) {
      // Read while a frame is handled, within the core's own guard.
      const { core } = endpoint;
      const handle = core.handleMessage.bind(core);
      core.handleMessage = (data, now) => {
        const broken = new Proxy(data as Uint8Array, {
          get: (target, key) => (key === 'length' ? Reflect.get(target, key, target) : fault()),
        });
        handle(broken, now);
      };
      await faulty.send('hello');
    },
  },
  {
    name: 'a socket that is writable again',
    provoke({ bench, endpoint }) {
      plant(endpoint, 'pollTransmit');
      for (const socket of bench.sockets) socket.emit('drain');
    },
  },
  {
    name: 'a write at the end of the turn',
    async provoke({ bench, endpoint }) {
      const [socket] = bench.sockets;
      if (socket === undefined) throw new Error('there is no socket');
      socket.write = fault as never;
      await endpoint.session.send('hello');
    },
  },
  {
    name: 'the coarse clock',
    provoke: ({ endpoint }) => plant(endpoint, 'nextTimeout'),
  },
  {
    name: 'the short clock, which others share',
    async provoke({ endpoint, faulty }) {
      let calls = 0;
      const { core } = endpoint;
      const next = core.nextTimeout.bind(core);
      core.nextTimeout = () => (++calls < 2 ? Math.min(next(), 0) : fault());
      await faulty.send('hello');
    },
  },
  {
    name: 'new credentials',
    provoke({ endpoint }) {
      plant(endpoint, 'grant');
      endpoint.grant(Date.now() + 60_000);
    },
  },
  {
    name: 'new credentials on request',
    server: {
      authenticate: ({ token }) => ({ principal: 'p', agentId: token, expiresAt: Date.now() + 600_000 }),
    },
    provoke({ endpoint, faulty }) {
      const { core } = endpoint;
      core.grant = () => {
        core.grant = fault as never;
        return fault();
      };
      clientEndpoint(faulty).authenticate('faulty');
    },
  },
  {
    name: 'a handler whose reply and error cannot be sent',
    provoke({ endpoint, faulty }) {
      plant(endpoint, 'respond', 'fail');
      faulty.request('hello').catch(() => {});
    },
  },
  {
    name: 'the start of a handler',
    provoke({ endpoint, faulty }) {
      plant(endpoint, 'consume');
      faulty.request('hello').catch(() => {});
    },
  },
  {
    name: 'the timeout of a request',
    provoke({ endpoint }) {
      plant(endpoint, 'cancel');
      endpoint.session.request('will time out', { timeoutMs: 20 }).catch(() => {});
    },
    client: { onRequest: () => new Promise(() => {}) },
  },
  {
    name: 'the signal of a request',
    client: { onRequest: () => new Promise(() => {}) },
    provoke({ endpoint }) {
      plant(endpoint, 'cancel');
      const controller = new AbortController();
      endpoint.session.request('will be aborted', { signal: controller.signal }).catch(() => {});
      controller.abort();
    },
  },
  {
    name: 'a message that passed a scan',
    server: { features: [scan(async () => ({ safe: true }))] },
    provoke({ endpoint, faulty }) {
      void faulty.request('hello').catch(() => {});
      plant(endpoint, 'isWanted');
    },
  },
  {
    name: 'the refusal of a message by a scan',
    server: { features: [scan(async (message) => ({ safe: message.text !== 'bad' }))] },
    async provoke({ endpoint, faulty }) {
      plant(endpoint, 'reject');
      await faulty.send('bad');
    },
  },
  {
    name: 'the core, which then cannot end either',
    async provoke({ endpoint, faulty }) {
      plant(endpoint, 'handleMessage', 'abort', 'pollEvent', 'pollTransmit', 'nextTimeout');
      await faulty.send('hello');
    },
  },
  {
    name: 'a message from another session',
    async provoke({ endpoint, neighbour }) {
      plant(endpoint, 'send');
      await neighbour.send('for you', { to: 'faulty' });
    },
  },
  {
    name: 'a request from another session',
    provoke({ endpoint, neighbour }) {
      plant(endpoint, 'request');
      neighbour.request('for you', { to: 'faulty' }).catch(() => {});
    },
  },
  {
    name: 'the cancelling of a request from another session',
    client: { onRequest: () => new Promise(() => {}) },
    async provoke({ endpoint, neighbour, bench }) {
      const controller = new AbortController();
      neighbour.request('for you', { to: 'faulty', signal: controller.signal }).catch(() => {});
      await expect.poll(() => bench.server.relayStats().forwarded).toBe(1);
      plant(endpoint, 'cancel');
      controller.abort();
    },
  },
  {
    name: 'credit that returns while another session writes',
    async provoke({ endpoint, faulty }) {
      plant(endpoint, 'consume');
      await faulty.send('for you', { to: 'neighbour' });
    },
  },
  {
    name: 'the writing that follows new credit',
    async provoke({ endpoint, faulty }) {
      const { core } = endpoint;
      core.channel.consume = () => {
        plant(endpoint, 'pollTransmit');
        return true;
      };
      await faulty.send('for you', { to: 'neighbour' });
    },
  },
];

describe('a fault in', () => {
  it.each(ENTRIES.map((entry) => [entry.name, entry] as const))(
    '%s ends its session alone',
    async (_name, { server, client, provoke }) => {
      await using bench = await Bench.begin(server);
      const faulty = await bench.dial('faulty', { reconnect: false, ...client });
      const neighbour = await bench.dial('neighbour');
      const endpoint = bench.endpoint(faulty);
      const { id } = endpoint;
      const ended = endOf(faulty);
      await provoke({ bench, faulty, endpoint, neighbour });
      const { code } = await ended;
      // A socket that cannot be written to is destroyed, which the client sees as a lost connection.
      expect(['internal', 'session_lost']).toContain(code);
      await bench.expectAlive(neighbour);
      await bench.expectLogged('session.crashed');
      const crash = bench.lines.find(({ event }) => event === 'session.crashed');
      expect(crash?.fields).toMatchObject({ session: id, err: { at: expect.any(Array) } });
      expect(JSON.stringify(crash)).not.toContain(FAULT);
      expect(bench.server.sessions.has(id)).toBe(false);
      expect(bench.server.sessions.size).toBe(1);
    },
  );

  it('the end of a connection ends the session, and it cannot be resumed', async () => {
    await using bench = await Bench.begin();
    const faulty = await bench.dial('faulty');
    const neighbour = await bench.dial('neighbour');
    const endpoint = bench.endpoint(faulty);
    plant(endpoint, 'handleDisconnected');
    for (const socket of bench.sockets.slice(0, 1)) socket.destroy();
    await bench.expectLogged('session.crashed');
    await bench.expectAlive(neighbour);
    expect(endpoint.state).toBe('closed');
    expect([...bench.server.sessions.values()]).not.toContain(endpoint);
  });

  it('the decision on a HELLO ends the handshake', async () => {
    await using bench = await Bench.begin({
      authenticate: ({ token }) => ({ principal: 'p', agentId: token }),
      features: [agents({ onConflict: 'refuse' })],
    });
    const neighbour = await bench.dial('neighbour');
    // Called between authentication and ACCEPT.
    const { get } = Map.prototype;
    const planted = vi.spyOn(Map.prototype, 'get').mockImplementation(function (this: unknown, key) {
      if (key === 'faulty') return fault();
      return get.call(this as Map<unknown, unknown>, key);
    });
    const error = await failure(bench.dial('faulty', { reconnect: false }));
    planted.mockRestore();
    expect(error).toMatchObject({ code: 'internal', closeCode: 4500 });
    await bench.expectAlive(neighbour);
    await bench.expectLogged('session.crashed');
  });

  it('an upgrade drops its connection', async () => {
    await using bench = await Bench.begin();
    const neighbour = await bench.dial('neighbour');
    const [socket] = bench.sockets;
    const destroy = vi.fn();
    const request = {
      socket,
      headers: {},
      get url() {
        return fault();
      },
    };
    bench.http.emit('upgrade', request as never, { destroy } as never, Buffer.alloc(0));
    expect(destroy).toHaveBeenCalled();
    await bench.expectAlive(neighbour);
    await bench.expectLogged('upgrade.failed');
  });

  it('the statistics of a session fails the scrape of the metrics', async () => {
    await using bench = await Bench.begin({ features: [metrics({ path: '/metrics' })] });
    const neighbour = await bench.dial('neighbour');
    const scrape = async () => (await fetch(`http://127.0.0.1:${bench.port}/metrics`)).status;
    await expect.poll(scrape).toBe(200);
    const endpoint = bench.endpoint(neighbour);
    endpoint.stats = fault;
    await expect.poll(scrape).toBe(500);
    Reflect.deleteProperty(endpoint, 'stats');
    await bench.expectAlive(neighbour);
    await bench.expectLogged('metrics.failed');
    await expect.poll(scrape).toBe(200);
  });

  it('one session does not keep drain and close from the others', async () => {
    await using bench = await Bench.begin({ onRequest: () => new Promise(() => {}) });
    const faulty = await bench.dial('faulty', { reconnect: false });
    const second = await bench.dial('second', { reconnect: false });
    // A client without open streams would leave by itself.
    for (const session of [faulty, second]) session.request('takes long').catch(() => {});
    const ended = Promise.all([endOf(faulty), endOf(second)]);
    plant(bench.endpoint(faulty), 'sendGoAway');
    plant(bench.endpoint(second), 'close');
    await bench.server.drain({ timeoutMs: 10 });
    await bench.server.close();
    expect((await ended).map(({ code }) => code)).toEqual(['internal', 'internal']);
    expect(fatal).toEqual([]);
  });
});

/** An error that throws on every access. */
const unreadable = () =>
  new Proxy(new Error(FAULT), {
    get: fault,
    getPrototypeOf: fault,
  });

describe('a function of the application', () => {
  type Case = readonly [string, ServerOptions, (bench: Bench) => Promise<void>, string];
  const CASES: readonly Case[] = [
    ...(
      [
        ['no verdict', () => undefined as never],
        [
          'a verdict with a getter that throws',
          () => ({
            safe: true,
            get threatType() {
              return fault();
            },
          }),
        ],
        ['a verdict of wrong types', () => ({ safe: 'yes', threatType: 7 }) as never],
        [
          'an unreadable error',
          () => {
            throw unreadable();
          },
        ],
      ] as const
    ).map(
      ([what, faulty]): Case =>
        [
          `scan, with ${what}, blocks`,
          { features: [scan((message) => (message.text === 'still there?' ? { safe: true } : faulty()))] },
          async (bench) => {
            const faulty = await bench.dial('faulty', { reconnect: false });
            const ended = endOf(faulty);
            await faulty.send('hello');
            expect(await ended).toMatchObject({ code: 'rejected' });
          },
          'scan.failed',
        ] as const,
    ),
    ...(
      [
        [
          'with a getter that throws the second time',
          () => {
            let reads = 0;
            return {
              principal: 'p',
              get agentId() {
                return ++reads > 1 ? fault() : 'faulty';
              },
            };
          },
          'established',
        ],
        ['with a symbol as agent ID', () => ({ principal: 'p', agentId: Symbol('x') }) as never, 'rejected'],
        [
          'with an object as agent ID',
          () => ({ principal: 'p', agentId: { toJSON: fault } }) as never,
          'rejected',
        ],
        [
          'with an expiry that is not a number',
          () => ({ principal: 'p', expiresAt: 1n << 70n }) as never,
          'rejected',
        ],
        ['that is unreadable', () => unreadable() as never, 'rejected'],
      ] as const
    ).map(
      ([what, identity, outcome]): Case =>
        [
          `authenticate, with an identity ${what}, is ${outcome}`,
          {
            authenticate: ({ token }) =>
              token === 'neighbour' ? { principal: 'p', agentId: token } : identity(),
          },
          async (bench) => {
            const dialled = bench.dial('faulty', { reconnect: false }).then(({ state }) => state);
            expect(await dialled.catch((error) => error.code)).toBe(outcome);
          },
          outcome === 'rejected' ? 'auth.failed' : 'session.accepted',
        ] as const,
    ),
    [
      'authorize, with a promise that is rejected, refuses',
      { features: [agents({ authorize: (async () => fault()) as never })] },
      async (bench) => {
        const faulty = await bench.dial('faulty');
        expect(await failure(faulty.request('x', { to: 'neighbour' }))).toMatchObject({
          code: 'unknown_agent',
        });
      },
      'agents.authorize_failed',
    ],
    [
      'route, with a promise that is rejected, reaches no agent',
      { features: [agents({ route: (async () => fault()) as never })] },
      async (bench) => {
        const faulty = await bench.dial('faulty');
        expect(await failure(faulty.request('x', { to: 'neighbour' }))).toMatchObject({
          code: 'unknown_agent',
        });
      },
      'agents.route_failed',
    ],
    [
      'onRequest, with a part whose getter throws, fails the request',
      {
        onRequest: (request) =>
          request.text === 'still there?'
            ? request.text
            : ({
                get text() {
                  return fault();
                },
              } as never),
      },
      async (bench) => {
        const faulty = await bench.dial('faulty');
        expect(await failure(faulty.request('x'))).toMatchObject({ code: 'internal' });
        expect(faulty.state).toBe('established');
      },
      'request.failed',
    ],
    ...(['throws', 'rejects with'] as const).map(
      (verb): Case => [
        `onRequest, which ${verb} an unreadable error, fails the request`,
        {
          onRequest(request) {
            if (request.text === 'still there?') return request.text;
            if (verb === 'throws') throw unreadable();
            return Promise.reject(unreadable());
          },
        },
        async (bench) => {
          const faulty = await bench.dial('faulty', { reconnect: false });
          expect(await failure(faulty.request('x'))).toMatchObject({ code: 'internal' });
          expect(faulty.state).toBe('established');
        },
        'request.failed',
      ],
    ),
    [
      'onSession, which rejects, ends its session',
      {
        onSession: async (session) => {
          if (session.agentId === 'faulty') fault();
        },
      },
      async (bench) => {
        const faulty = await bench.dial('faulty', { reconnect: false });
        expect(await endOf(faulty)).toMatchObject({ code: 'internal' });
      },
      'session.failed',
    ],
    [
      'a listener, which rejects, is logged',
      {
        onSession(session) {
          session.on('state', (async () => fault()) as never);
        },
      },
      async (bench) => {
        const faulty = await bench.dial('faulty');
        await faulty.close();
      },
      'listener.failed',
    ],
  ];

  it.each(CASES)('%s', async (_name, options, provoke, event) => {
    await using bench = await Bench.begin(options);
    const neighbour = await bench.dial('neighbour');
    await provoke(bench);
    await bench.expectAlive(neighbour);
    await bench.expectLogged(event);
  });

  it.each([
    ['throws', fault],
    ['rejects', async () => fault()],
  ] as const)('a logger, which %s, has no effect', async (_what, log) => {
    const logger = { debug: log, info: log, warn: log, error: log } as never;
    await using bench = await Bench.begin({ logger });
    const faulty = await bench.dial('faulty', { reconnect: false, logger });
    const neighbour = await bench.dial('neighbour', { logger });
    const ended = endOf(faulty);
    plant(bench.endpoint(faulty), 'handleMessage');
    await faulty.send('hello');
    expect(await ended).toMatchObject({ code: 'internal' });
    await bench.expectAlive(neighbour);
  });
});

it('a threat type that is a quotation is cut between characters, because half of one has no form in JSON', async () => {
  const quoted = `${'x'.repeat(127)}👍 and so on`;
  const check = (message: { readonly text: string }) =>
    message.text === 'bad' ? { safe: false, threatType: quoted } : { safe: true, threatType: '\ud800' };
  await using bench = await Bench.begin({ features: [scan(check)] });
  const faulty = await bench.dial('faulty', { reconnect: false, subprotocol: Subprotocol.JSON });
  const neighbour = await bench.dial('neighbour');
  const ended = new Promise((resolve) => faulty.on('error', resolve));
  await faulty.send('bad');
  expect(await ended).toMatchObject({
    code: 'rejected',
    message: `content was refused: ${'x'.repeat(127)}`,
  });
  await bench.expectAlive(neighbour);
});

describe('at a client, a fault in', () => {
  /** A client that records its log, and another one beside it. */
  async function setUp(options: ClientOptions = {}) {
    const events: unknown[] = [];
    const log = (fields: Readonly<Record<string, unknown>>) => void events.push(fields['event']);
    const bench = await Bench.begin({ onRequest: (request) => request.text });
    const logger = { debug: log, info: log, warn: log, error: log };
    const faulty = await bench.dial('faulty', { logger, ...options });
    const neighbour = await bench.dial('neighbour');
    const ended = endOf(faulty);
    return { bench, faulty, core: clientEndpoint(faulty).core, neighbour, ended, events };
  }
  type ClientSetting = Awaited<ReturnType<typeof setUp>>;

  const CASES: readonly (readonly [string, ClientOptions, (setting: ClientSetting) => unknown])[] = [
    [
      'a message of the wire',
      {},
      ({ core, bench, faulty }) => {
        core.handleMessage = fault as never;
        void bench.endpoint(faulty).session.send('hello');
      },
    ],
    [
      'the end of a connection',
      {},
      ({ core, bench }) => {
        core.handleDisconnected = fault as never;
        bench.sockets[0]?.destroy();
      },
    ],
    [
      'a connection that opens again',
      { reconnect: { minDelayMs: 1 } },
      ({ core, bench }) => {
        core.handleConnected = fault as never;
        bench.sockets[0]?.destroy();
      },
    ],
    [
      'the coarse clock',
      {},
      ({ core }) => {
        core.nextTimeout = fault as never;
      },
    ],
    [
      'the timeout of a request',
      {},
      ({ core, faulty, bench }) => {
        core.channel.cancel = fault as never;
        // The reply never arrives, so the request times out.
        Object.assign(bench.endpoint(faulty).core.channel, { respond() {} });
        faulty.request('x', { timeoutMs: 20 }).catch(() => {});
      },
    ],
  ];

  it.each(CASES)('%s ends its session alone', async (_name, options, provoke) => {
    const setting = await setUp(options);
    const { bench, faulty, neighbour, ended, events } = setting;
    await using _bench = bench;
    await provoke(setting);
    expect(await ended).toMatchObject({ code: 'internal', closeCode: 4500 });
    expect(faulty.state).toBe('closed');
    expect(events).toContain('session.crashed');
    await bench.expectAlive(neighbour);
  });

  it('a WebSocket that cannot be created again ends its session', async () => {
    let made = 0;
    class Flaky extends WebSocket {
      constructor(url: string, protocols: string[]) {
        if (++made > 1) fault();
        super(url, protocols);
      }
    }
    const { bench, neighbour, ended, events } = await setUp({
      WebSocket: Flaky as never,
      reconnect: { minDelayMs: 1 },
    });
    await using _bench = bench;
    bench.sockets[0]?.destroy();
    expect(await ended).toMatchObject({ code: 'internal' });
    expect(events).toContain('session.crashed');
    await bench.expectAlive(neighbour);
  });
});
