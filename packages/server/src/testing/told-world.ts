import { setImmediate as tick } from 'node:timers/promises';
import { ProtocolError, type Session } from '@parlance/protocol';
import { scan } from '../agents/scan-feature.js';
import { cluster } from '../cluster/feature.js';
import { durable } from '../durable/feature.js';
import { Leaving } from '../durable/leaving.js';
import type { EngineConnection } from '../engine/engine.js';
import { memoryCluster } from '../engine/memory.js';
import { createTestServer, type TestServer } from '../kit/kit.js';
import { NODE, SESSIONS, type ThisNode } from '../server/features/own-feature.js';
import type { SessionServer } from '../server/server.js';
import type { ServerEndpoint } from '../session/endpoint.js';

/**
 * A server in virtual time whose sessions use every feature that speaks to sessions, and are held, frozen, given up and ended
 * meanwhile. {@link ToldWorld.faults} lists what must not happen.
 */

/** Agents whose names begin with `d` have durable sessions. */
export const NAMES = ['p1', 'p2', 'd1', 'd2'] as const;
export type Name = (typeof NAMES)[number];

/** The deeds of a client. */
export type Deed = 'ask' | 'tell' | 'tensor' | 'keep' | 'follow' | 'watch' | 'say' | 'group' | 'stop';
export const DEEDS: readonly Deed[] = [
  'ask',
  'tell',
  'tensor',
  'keep',
  'follow',
  'watch',
  'say',
  'group',
  'stop',
];

/** The fate of a session. Those after `cut` end it, or end it here. */
export type Fate = 'freeze' | 'thaw' | 'cut' | 'giveUp' | 'forget' | 'abort' | 'fault' | 'close';
export const FATES: readonly Fate[] = [
  'freeze',
  'thaw',
  'cut',
  'giveUp',
  'forget',
  'abort',
  'fault',
  'close',
];

const PARTS = 8;
const STEP_MS = 30;
const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

export class ToldWorld {
  readonly #test: TestServer;
  readonly #clients = new Map<Name, Session>();
  /** Sessions that were ended, by their names. */
  readonly #ended = new Set<Name>();
  readonly #givingUp = new Set<Promise<void>>();
  /** Calls of clients that have not settled. */
  readonly #open = new Map<Promise<unknown>, string>();
  readonly #stops: AbortController[] = [];
  readonly faults: string[] = [];

  private constructor(test: TestServer) {
    this.#test = test;
  }

  static async create(): Promise<ToldWorld> {
    let world: ToldWorld | undefined;
    const note = ({ event, err, session }: Readonly<Record<string, unknown>>): void => {
      if (err !== undefined && !isPlanned(err))
        world?.faults.push(`${event} ${session}: ${JSON.stringify(err)}`);
    };
    const engine = memoryCluster();
    const test = await createTestServer({
      engine: { ...engine, connect: () => delayed(engine.connect()) },
      features: [
        scan(async () => {
          await wait(10);
          return { safe: true };
        }),
        cluster(),
        durable(({ agentId }) => agentId?.startsWith('d') === true, { allowVolatileEngine: true }),
      ],
      authenticate: ({ token }) => ({ principal: 'acme', agentId: token }),
      limits: { messagesPerMinute: Infinity, bytesPerSecond: Infinity },
      logger: { debug() {}, info() {}, warn: note, error: note },
      async onSession(session) {
        test.server.group('all').add(session);
        for await (const message of session) void message.text;
      },
      async *onRequest(request, { keep, ifProcessDies, signal }) {
        ifProcessDies('again');
        if (request.text !== '') keep({ name: request.text });
        for (let i = 0; i < PARTS && !signal.aborted; i++) {
          await wait(STEP_MS);
          yield `${i}`;
        }
      },
    });
    world = new ToldWorld(test);
    // Clients come when the server has joined its cluster.
    while (world.#parts.unready() !== undefined) await world.pass(1);
    for (const name of NAMES) await world.#connect(name);
    return world;
  }

  /** Lets time pass until `work` is done. */
  async #during<Result>(work: Promise<Result>): Promise<Result> {
    let isDone = false;
    const done = work.finally(() => {
      isDone = true;
    });
    while (!isDone) await this.pass(5);
    return await done;
  }

  async #connect(name: Name): Promise<void> {
    const connecting = this.#test.connect({
      token: name,
      agent: {},
      transfers: 'assemble',
      reconnect: { minDelayMs: 5, maxDelayMs: 20 },
      async *onRequest() {
        for (let i = 0; i < PARTS; i++) {
          yield `${i}`;
          await wait(STEP_MS);
        }
      },
    });
    const session = await this.#during(connecting);
    this.#clients.set(name, session);
    session.on('error', ({ code, message }) => this.#harmed(name, `${code} ${message}`));
    session.on('reset', ({ reason }) => this.#harmed(name, `reset: ${reason}`));
    void (async () => {
      for await (const message of session) void message.codedLength;
    })().catch(() => {});
  }

  #harmed(name: Name, how: string): void {
    if (!this.#ended.has(name)) this.faults.push(`${name} was harmed: ${how}`);
  }

  #client(name: Name): Session {
    return this.#clients.get(name) as Session;
  }

  get #parts(): SessionServer['features'] {
    return (this.#test.server as TestServer['server'] & SessionServer).features;
  }

  #endpoint(name: Name): ServerEndpoint | undefined {
    return this.#parts.use(SESSIONS)?.find(this.#client(name).id);
  }

  async pass(ms: number): Promise<void> {
    await this.#test.clock.advance(ms);
  }

  do(deed: Deed, from: Name, to: Name): void {
    const client = this.#client(from);
    const stop = new AbortController();
    const { signal } = stop;
    const call = (made: () => Promise<unknown>): void => {
      this.#stops.push(stop);
      this.#track(`${from} ${deed} ${to}`, made, from);
    };
    switch (deed) {
      case 'ask':
        return call(() => readAll(client.stream('hi', { to, signal })));
      case 'tell':
        return call(() => client.send('note', { to, signal }));
      case 'tensor':
        return call(() =>
          client.sendTensor(
            {
              payloadType: 'hidden_state',
              shape: [40_000],
              dtype: 'float32',
              data: new Float32Array(40_000),
            },
            { to, signal },
          ),
        );
      case 'keep':
        return call(() => readAll(client.stream(`reply of ${from}`, { signal })));
      case 'follow':
        return call(() => readAll(client.follow(`reply of ${to}`, { signal })));
      case 'watch':
        return call(async () => {
          for await (const _change of await client.agents()) if (signal.aborted) break;
        });
      case 'say':
        return call(() => client.send('word', { signal }));
      case 'group':
        return this.#track('group', () => this.#test.server.group('all').send('for all'));
      case 'stop':
        return this.#stops.pop()?.abort();
    }
  }

  #track(what: string, made: () => Promise<unknown>, from?: Name): void {
    const call: Promise<unknown> = (async () => await made())().then(
      () => this.#open.delete(call),
      (error: unknown): void => {
        this.#open.delete(call);
        const isEnded = from !== undefined && this.#ended.has(from);
        const isTyped = error instanceof ProtocolError && (isEnded || !HARM.has(error.code));
        if (!isTyped && (error as Error).name !== 'AbortError') this.faults.push(`${what}: ${error}`);
      },
    );
    this.#open.set(call, what);
  }

  suffer(name: Name, fate: Fate): void {
    const endpoint = this.#endpoint(name);
    if (endpoint === undefined || (endpoint.isFrozen && fate !== 'thaw')) return;
    switch (fate) {
      case 'freeze':
        return endpoint.freeze();
      case 'thaw':
        // Nothing thaws a session that is given up.
        return endpoint.isDurable ? undefined : endpoint.thaw();
      case 'cut':
        return endpoint.loseWire(1012, 'come again');
      case 'giveUp':
        return endpoint.isDurable ? this.#giveUp(endpoint) : endpoint.freeze();
    }
    this.#ended.add(name);
    switch (fate) {
      case 'forget':
        endpoint.freeze();
        return endpoint.forget();
      case 'abort':
        return endpoint.abort(new ProtocolError('draining', PLANNED));
      case 'fault':
        return endpoint.crash(new ProtocolError('internal', PLANNED));
      case 'close':
        void this.#client(name).close();
    }
  }

  /** As a node that drains does. */
  #giveUp(endpoint: ServerEndpoint): void {
    const { options, features } = this.#test.server as TestServer['server'] & SessionServer;
    const { incarnation } = features.use(NODE) as ThisNode;
    const leaving = new Leaving({
      incarnation,
      link: delayed(options.engine?.connect() as EngineConnection),
      sessions: new Map([[endpoint.id, endpoint]]),
      parts: () => features,
      timers: options.timers,
      clock: endpoint.options.clock,
      logger: options.logger,
    });
    const given = leaving.all().finally(() => this.#givingUp.delete(given));
    this.#givingUp.add(given);
  }

  /** Nothing happens to sessions any more. A session that was not ended has to be well, and nothing may be left of the others. */
  async settle(): Promise<void> {
    await this.pass(5_000);
    for (const name of NAMES) {
      const endpoint = this.#endpoint(name);
      if (endpoint?.isFrozen === true && !this.#isGivingUp) endpoint.thaw();
    }
    await this.pass(15_000);
    this.#checkSettled();
    for (const stop of this.#stops.splice(0)) stop.abort();
    const well = NAMES.filter((name) => !this.#ended.has(name));
    for (const name of well) {
      const { state } = this.#client(name);
      if (state !== 'established') this.faults.push(`${name} is ${state}`);
      this.do('ask', name, well[0] as Name);
      this.do('tell', name, well[0] as Name);
      this.do('say', name, name);
      this.do('keep', name, name);
    }
    await this.pass(5_000);
    this.#checkSettled();
    for (const name of well) this.#checkNothingLeft(name);
  }

  get #isGivingUp(): boolean {
    return this.#givingUp.size > 0;
  }

  #checkSettled(): void {
    for (const what of this.#open.values())
      if (!what.includes('watch')) this.faults.push(`${what} never settles`);
  }

  #checkNothingLeft(name: Name): void {
    const endpoint = this.#endpoint(name);
    const { relayed = 0, core } = endpoint ?? {};
    const unread = (core?.channel as { readonly unreadBytes?: number } | undefined)?.unreadBytes ?? 0;
    if (relayed !== 0 || unread !== 0)
      this.faults.push(`${name}: ${relayed} bodies wait for others, ${unread} bytes of credit are not back`);
  }

  async close(): Promise<void> {
    await this.#test.close();
    await tick();
  }
}

/** Codes with which no call of a session ends that continues. */
const HARM: ReadonlySet<string> = new Set(['internal', 'draining', 'session_closed']);

const PLANNED = 'a planned end';
const isPlanned = (error: unknown): boolean => JSON.stringify(error).includes(PLANNED);

async function readAll(reply: AsyncIterable<unknown>): Promise<void> {
  for await (const _part of reply);
}

/** The engine takes some time for each write of a session. */
function delayed(link: EngineConnection): EngineConnection {
  return {
    ...link,
    async writeSession(id, write) {
      await wait(25);
      return await link.writeSession(id, write);
    },
    async moveSession(id, move) {
      await wait(100);
      return await link.moveSession(id, move);
    },
  };
}
