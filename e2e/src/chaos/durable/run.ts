import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TransportName } from '@parlance/client';
import { createRandom, type Random } from '../../../../packages/protocol/src/testing/chaos/random.js';
import type { Report } from '../cluster/deploy.js';
import { type Member, Members } from '../cluster/members.js';
import { User } from '../cluster/user.js';
import { PythonPeers } from '../python/peers.js';
import { readEffects } from './effects.js';
import { DurableLedger, MAX_PAUSE_MS } from './ledger.js';
import type { DurableNodeSetup } from './node.js';
import type { DurablePlant } from './plant.js';
import { RESUME_WINDOW_MS } from './settings.js';

/**
 * Nodes are killed, paused and drained, Redis is killed and paused, and connections of every leg break, while users talk in
 * durable sessions. Nothing that was promised may be lost, doubled or out of order, and no session ends.
 */

export interface DurableOptions {
  readonly seconds: number;
  readonly nodes: number;
  /** Concurrent sessions. */
  readonly sessions: number;
  /** Of what happens to nodes and the engine, and when. */
  readonly seed: number;
  readonly plant: DurablePlant | undefined;
  /** Every other user has a client in Python. */
  readonly python: boolean;
  readonly transport: TransportName;
  /** A file for what the nodes log. */
  readonly log: string | undefined;
}

const TIMERS = {
  acceptTimeoutMs: 4_000,
  pingIntervalMs: 10_000,
  pongTimeoutMs: 5_000,
  resumeWindowMs: RESUME_WINDOW_MS,
};
const RECONNECT = { minDelayMs: 5, maxDelayMs: 300 };
const HABITS = {
  sayEveryMs: 200,
  flushed: 0.1,
  ask: { paceMs: 20, minParts: 1, maxParts: 60, thinkMs: 300 },
};
const DRAIN = { drainMs: 2_000, returnWithinMs: 500 };
/** Average times, in milliseconds: between two failures of the connections of one leg, two of nodes, and two pauses. */
const STORM_MS = 400;
const ACT_MS = 1_500;
const PAUSE_MS = 8_000;
/** With a planted fault, which is found soon if sessions are taken over from nodes that wake again. */
const PLANT_PAUSE_MS = 2_000;
const LEASE_MS = 5_000;
const SAMPLE_MS = 500;
const REST_MS = 90_000;
const NOTES_MS = 10_000;
const MAX_ENGINE_PAUSE_MS = 2_000;

export async function runDurable(options: DurableOptions): Promise<Report> {
  const { nodes, plant, log } = options;
  const folder = await mkdtemp(join(tmpdir(), 'parlance-chaos-'));
  const effects = join(folder, 'effects');
  const more: Pick<DurableNodeSetup, 'effects' | 'plant'> = { effects, plant };
  try {
    await using members = await Members.start(nodes, {
      ...DRAIN,
      ...{ more, log, hasGuards: true },
      program: new URL('./node.ts', import.meta.url),
      redis: ['--appendonly', 'yes', '--appendfsync', 'everysec'],
    });
    using python = options.python ? new PythonPeers(options.transport) : undefined;
    return await new Durable(options, members, effects, python).run();
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

class Durable {
  readonly #options: DurableOptions;
  readonly #members: Members;
  readonly #effects: string;
  readonly #python: PythonPeers | undefined;
  readonly #random: Random;
  readonly #ledger = new DurableLedger();
  readonly #over = new AbortController();
  readonly #acts = new Map<string, number>();
  readonly #deaths: number[] = [];
  readonly #paused = new Set<Member>();
  readonly #starting = new Set<Promise<unknown>>();
  #samples = 0;

  constructor(options: DurableOptions, members: Members, effects: string, python: PythonPeers | undefined) {
    this.#options = options;
    this.#members = members;
    this.#effects = effects;
    this.#python = python;
    this.#random = createRandom(options.seed);
  }

  async run(): Promise<Report> {
    const { sessions, seconds, seed } = this.#options;
    const { outside } = this.#members;
    const users = await Promise.all(Array.from({ length: sessions }, (_, i) => this.#open(i)));
    const end = performance.now() + seconds * 1_000;
    const isOver = () => performance.now() >= end;
    await outside.call('storm', STORM_MS);
    for (const user of users) user.begin(HABITS, this.#over.signal);
    const sampling = this.#sample();
    await Promise.all([this.#breakNodes(isOver), this.#pauseNodes(isOver)]);
    const { cuts, freezes, delays, outages } = await outside.call('calm');
    await Promise.all(this.#starting);
    this.#over.abort();
    const faults: string[] = [];
    const rest = Promise.all(users.map((user) => user.rest())).then(() => true);
    if (!(await Promise.race([rest, sleep(REST_MS, false, { ref: false })])))
      faults.push(`not everything came back within ${REST_MS} ms`);
    await sampling;
    // Users do not wait for notes.
    const until = performance.now() + NOTES_MS;
    while (this.#ledger.missingNotes(readEffects(this.#effects)).length > 0 && performance.now() < until)
      await sleep(SAMPLE_MS);
    await this.#check();
    const { killedPids, deadlines } = this.#members;
    const fates = { killedPids, deadlines, deaths: this.#deaths };
    faults.push(...this.#ledger.examine(readEffects(this.#effects), fates));
    const logged = await this.#members.logged();
    const { arrived, counts, questions } = this.#ledger;
    const acts = [...this.#acts].map(([name, count]) => `${count} × ${name}`).join(', ');
    const events = ['session.taken_over', 'session.fenced', 'session.led']
      .map((event) => `${logged.get(event) ?? 0} × ${event}`)
      .join(', ');
    const lines = [
      `durable, seed ${seed}: ${acts || 'none'}; ${cuts} connections cut, ${freezes} frozen, ${delays} slowed down, ${outages} outages`,
      `  ${arrived} echoes, notes and parts arrived in ${sessions} sessions; ${questions} questions, ${counts.flushed} flushes`,
      `  ${counts.redelivered} messages marked, ${counts.repeated} of them handled again; ${counts.interrupted} replies interrupted, ${counts.continued} continued`,
      `  ${events}; ${this.#samples} records compared`,
    ];
    return { faults, lines };
  }

  async #open(number: number): Promise<User> {
    const { url } = this.#members;
    const python = number % 2 === 1 ? this.#python : undefined;
    const common = { name: `user-${number}`, timers: TIMERS, reconnect: RECONNECT };
    const { transport } = this.#options;
    return await User.open({ url, ledger: this.#ledger, python, transports: [transport], ...common });
  }

  // --- what happens

  async #breakNodes(isOver: () => boolean): Promise<void> {
    while (!isOver()) {
      await sleep(this.#random.below(2 * ACT_MS));
      const awake = this.#members.alive.filter((member) => !this.#paused.has(member));
      const member = this.#random.pick(awake);
      const choice = this.#random.below(100);
      if (choice < 12) await this.#breakEngine(choice < 6);
      else if (member === undefined || awake.length < 2) continue;
      else if (choice < 80) await this.#kill(member);
      else await this.#drain(member);
    }
  }

  async #kill(member: Member): Promise<void> {
    this.#countDeath('node killed');
    await this.#members.kill(member);
    this.#add();
  }

  async #drain(member: Member): Promise<void> {
    this.#countDeath('node drained');
    this.#add();
    await this.#members.stop(member);
  }

  /** Another node takes the place of one that is gone. */
  #add(): void {
    const adding = this.#members.add();
    this.#starting.add(adding);
    void adding.finally(() => this.#starting.delete(adding));
  }

  async #breakEngine(isKilled: boolean): Promise<void> {
    const { redis } = this.#members;
    const ms = this.#random.below(MAX_ENGINE_PAUSE_MS);
    this.#count(isKilled ? 'engine killed' : 'engine paused');
    if (isKilled) await redis.kill();
    else redis.pause();
    await sleep(ms);
    if (isKilled) await redis.restart();
    else redis.go();
  }

  async #pauseNodes(isOver: () => boolean): Promise<void> {
    const { plant } = this.#options;
    while (!isOver()) {
      await sleep(this.#random.below(2 * (plant === undefined ? PAUSE_MS : PLANT_PAUSE_MS)));
      const member = this.#random.pick(this.#members.alive);
      if (member === undefined || isOver()) continue;
      this.#countDeath('node paused');
      this.#paused.add(member);
      const { pid } = member.process;
      process.kill(pid, 'SIGSTOP');
      const leastMs = plant === undefined ? 0 : LEASE_MS;
      await sleep(leastMs + this.#random.below(MAX_PAUSE_MS - leastMs));
      this.#paused.delete(member);
      if (member.process.end === undefined) process.kill(pid, 'SIGCONT');
    }
  }

  #countDeath(act: string): void {
    this.#deaths.push(Date.now());
    this.#count(act);
  }

  #count(act: string): void {
    this.#acts.set(act, (this.#acts.get(act) ?? 0) + 1);
  }

  // --- the records

  async #sample(): Promise<void> {
    while (!this.#over.signal.aborted) {
      await sleep(SAMPLE_MS);
      await this.#check();
    }
  }

  /** The count of each session is recorded with the messages that it counts, at any moment. */
  async #check(): Promise<void> {
    const { client } = this.#members.redis;
    for (const [session, heard] of this.#ledger.sessions) {
      const [handled, state] = await client.hmget(`parlance:{${session}}`, 'handled', 'state');
      const { count } = state ? (JSON.parse(state) as { readonly count: number }) : { count: 0 };
      this.#ledger.recorded(session, Number(handled ?? 0), count, heard);
      this.#samples++;
    }
  }
}
