import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { type RedisServer, startRedis } from '../../../../packages/server/src/engine/testing/redis-server.js';
import { type Child, startChild } from '../../../../scripts/child-process.js';
import { freePort } from '../../kit/cli-process.js';
import { type EngineAddress, MEMORY } from '../../kit/engine-address.js';
import { Balancer } from './balancer.js';
import type { NodeCommands, NodeSetup } from './node-process.js';
import type { OutsideCommands } from './outside.js';

/** Nodes as processes, their engine, and what is around them; nodes come and go. */

/** The engine that all nodes share. */
export interface MemberEngine extends AsyncDisposable {
  readonly address: EngineAddress;
}

export interface Member {
  /** The so-many-th node that was started, from 0. */
  readonly number: number;
  readonly process: Child<NodeCommands>;
  /** Which of the servers of its process, which is its own if the engine is not the memory of one. */
  readonly at: number;
  readonly incarnation: string;
  readonly port: number;
}

export interface MembersOptions {
  readonly drainMs: number;
  readonly returnWithinMs: number;
  /** The program of a node, if it is not `node.ts`. */
  readonly program?: URL;
  /** The settings of the program beside a {@link NodeSetup}. */
  readonly more: object;
  /** @default a Redis */
  readonly engine?: MemberEngine;
  /** Whether the nodes know nothing of each other, as there is one at a time. @default false */
  readonly isAlone?: boolean;
  /** Beside those of a Redis that forgets all when it is killed. @default none */
  readonly redis?: readonly string[];
  readonly log: string | undefined;
  /** Whether there are proxies between the nodes, and between them and their engine. */
  readonly hasGuards: boolean;
  /** Clients come over TLS and HAProxy, with at most so many connections. @default over a proxy of ours, without TLS */
  readonly maxConnections?: number | undefined;
}

const UPSTREAM_NODE = new URL('./node.ts', import.meta.url);
/** Time that a node has to say what it knows before it is killed; one that is paused says nothing. */
const LAST_WORDS_MS = 300;
/** Time in which a node has to be a member, and in which one that drains has to end beyond its deadline. */
const START_MS = 30_000;
const END_MS = 30_000;

export class Members implements AsyncDisposable {
  readonly outside: Child<OutsideCommands>;
  readonly #engine: MemberEngine;
  readonly #redis: RedisServer | undefined;
  /** Nodes that get connections. */
  readonly alive: Member[] = [];
  readonly killed = new Set<string>();
  readonly killedPids = new Set<number>();
  readonly deadlines = new Map<number, number>();
  /** Log events of all nodes, as they were when they were last asked. */
  readonly events = new Map<number, Readonly<Record<string, number>>>();
  /** Of which each client takes any. */
  urls: readonly string[] = [];
  /** Of the TLS, in PEM. */
  certificate: string | undefined;
  #balancer: Balancer | undefined;
  readonly #options: MembersOptions;
  readonly #secret = randomBytes(24).toString('base64');
  readonly #cpuMs = new Map<number, number>();
  /** The first node of the process that all are in, if they are. */
  #shared: Member | undefined;
  #upstream = 0;
  #added = 0;

  static async start(count: number, options: MembersOptions): Promise<Members> {
    const redis = options.engine === undefined ? await startRedis(...(options.redis ?? [])) : undefined;
    const members = new Members(options.engine ?? urlOf(redis as RedisServer), redis, options);
    await members.#open();
    const first = await members.add();
    if (members.#isShared) members.#shared = first;
    await Promise.all(Array.from({ length: count - 1 }, () => members.add()));
    return members;
  }

  /** If there is one. */
  get url(): string {
    return this.urls[0] as string;
  }

  private constructor(engine: MemberEngine, redis: RedisServer | undefined, options: MembersOptions) {
    this.#engine = engine;
    this.#redis = redis;
    this.#options = options;
    this.outside = startChild<OutsideCommands>(new URL('./outside.ts', import.meta.url), []);
  }

  /** The Redis that they share. @throws if they share something else. */
  get redis(): RedisServer {
    if (this.#redis === undefined) throw new Error('the engine is another one');
    return this.#redis;
  }

  /** Whether all nodes have to be in one process. */
  get #isShared(): boolean {
    return this.#engine.address === MEMORY;
  }

  async #open(): Promise<void> {
    const { outside } = this;
    const { maxConnections } = this.#options;
    if (maxConnections !== undefined) this.#balancer = await Balancer.start(maxConnections);
    this.certificate = this.#balancer?.certificate;
    this.urls = this.#balancer?.urls ?? [`ws://127.0.0.1:${await outside.call('front')}/session`];
    this.#upstream = await outside.call('upstream');
  }

  /** A port that was free may be taken by the time a node listens there; then it tries another one. */
  async add(): Promise<Member> {
    for (let triesLeft = 3; ; triesLeft--) {
      try {
        return await this.#add();
      } catch (error) {
        if (triesLeft === 0) throw error;
      }
    }
  }

  async #add(): Promise<Member> {
    const { drainMs, returnWithinMs, program = UPSTREAM_NODE, more, log, isAlone = false } = this.#options;
    const number = this.#added++;
    if (this.#shared !== undefined) {
      const member = { ...this.#shared, ...(await this.#shared.process.call('add')), number };
      this.alive.push(member);
      await this.#route();
      return member;
    }
    const common: NodeSetup = {
      engine: await this.#guardEngine(number),
      peers: isAlone ? undefined : await this.#openPeers(number),
      drainMs,
      returnWithinMs,
      log,
    };
    const setup = { ...common, upstream: this.#upstream, ...more };
    const process = startChild<NodeCommands>(program, [JSON.stringify(setup)]);
    const port = await process.call('port');
    const incarnation = await within(START_MS, 'a node did not join', () => process.call('incarnation'));
    const member = { number, process, at: 0, port, incarnation };
    this.alive.push(member);
    await this.#route();
    return member;
  }

  /**
   * Stops a node in order, as a supervisor does. Connections may still arrive there, unless there is a balancer.
   *
   * @returns how long that took, the processor time that the node used meanwhile, as far as is known, and whether it has
   * ended by itself.
   */
  async stop(
    member: Member,
  ): Promise<{ readonly tookMs: number; readonly cpuMs: number; readonly hasEnded: boolean }> {
    const { process: child, at } = member;
    await this.#ask(member);
    if (this.#isShared) {
      const start = performance.now();
      await child.call('leave', at);
      await this.#remove(member);
      return { hasEnded: true, tookMs: performance.now() - start, cpuMs: 0 };
    }
    const [before, start] = [this.#cpuMs.get(child.pid) ?? 0, performance.now()];
    this.deadlines.set(child.pid, Date.now() + this.#options.drainMs);
    // A supervisor tells its balancer when it tells the node.
    await this.#balancer?.route(this.alive.filter((each) => each !== member).map(({ port }) => port));
    process.kill(child.pid, 'SIGTERM');
    const asking = setInterval(() => void this.#ask(member).catch(() => {}), 200);
    const ended = within(this.#options.drainMs + END_MS, 'a drained node did not end', async () => child.end);
    const hasEnded = await ended.then(
      () => true,
      () => false,
    );
    clearInterval(asking);
    await child.kill();
    await this.#remove(member);
    return {
      hasEnded,
      tookMs: performance.now() - start,
      cpuMs: (this.#cpuMs.get(child.pid) ?? 0) - before,
    };
  }

  async kill(member: Member): Promise<void> {
    this.killed.add(member.incarnation);
    this.killedPids.add(member.process.pid);
    await Promise.race([this.#ask(member), pause(LAST_WORDS_MS)]);
    await member.process.kill();
    await this.#remove(member);
  }

  /** How often each event was logged. */
  async logged(): Promise<ReadonlyMap<string, number>> {
    for (const member of this.alive) await this.#ask(member);
    const sums = new Map<string, number>();
    for (const events of this.events.values())
      for (const [event, count] of Object.entries(events)) sums.set(event, (sums.get(event) ?? 0) + count);
    return sums;
  }

  async #ask({ process: child }: Member): Promise<void> {
    this.events.set(child.pid, await child.call('events'));
    this.#cpuMs.set(child.pid, await child.call('cpuMs'));
  }

  async #remove(member: Member): Promise<void> {
    this.alive.splice(this.alive.indexOf(member), 1);
    await this.#route();
  }

  async #route(): Promise<void> {
    const ports = this.alive.map(({ port }) => port);
    await this.outside.call('route', ports);
    await this.#balancer?.route(ports);
  }

  /** The address that a node knows as the engine: a proxy, if there is a connection to it. */
  async #guardEngine(number: number): Promise<EngineAddress> {
    const { address } = this.#engine;
    if (!URL.canParse(address) || address === MEMORY) return address;
    const url = new URL(address);
    url.port = String(await this.#guard(engineOf(number), 'engine', Number(url.port)));
    return url.href;
  }

  /** Nodes of one process find each other without it. */
  async #openPeers(number: number): Promise<NodeSetup['peers']> {
    const secret = this.#secret;
    if (this.#isShared) return { secret, address: undefined };
    const port = Number(await freePort());
    const guard = await this.#guard(`peer ${number}`, `peer ${number}`, port);
    return { secret, address: { port, advertise: `ws://127.0.0.1:${guard}` } };
  }

  async #guard(name: string, group: string, port: number): Promise<number> {
    return this.#options.hasGuards ? await this.outside.call('guard', { name, group, port }) : port;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.alive.map(({ process: child }) => child.kill()));
    await this.outside.kill();
    await this.#balancer?.[Symbol.asyncDispose]();
    await this.#engine[Symbol.asyncDispose]();
  }
}

const urlOf = (redis: RedisServer): MemberEngine => ({
  address: redis.url,
  [Symbol.asyncDispose]: () => redis[Symbol.asyncDispose](),
});

/** The name of the proxy between a node and its engine. */
export const engineOf = (node: number): string => `engine ${node}`;

/** Asks until there is an answer that is not empty. */
async function within<T>(ms: number, failure: string, ask: () => Promise<T>): Promise<NonNullable<T>> {
  const end = performance.now() + ms;
  for (;;) {
    const answer = await ask();
    if (answer !== undefined && answer !== null && answer !== '') return answer;
    if (performance.now() > end) throw new Error(`${failure} within ${ms} ms`);
    await pause(20);
  }
}
