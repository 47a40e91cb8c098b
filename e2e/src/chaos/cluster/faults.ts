import { appendFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Report } from './deploy.js';
import { Ledger } from './ledger.js';
import { Members } from './members.js';
import type { Plant } from './plant.js';
import { User } from './user.js';

/**
 * Nodes and the engine fail in every way, and so do the connections of every leg. Sessions of nodes that survive must
 * lose nothing.
 */

export interface FaultsOptions {
  readonly seconds: number;
  readonly nodes: number;
  /** Concurrent sessions. */
  readonly sessions: number;
  readonly plant: Plant | undefined;
  /** A file for what the nodes log. */
  readonly log: string | undefined;
}

/** The shortest times that the options allow, for what is lost without a word. */
const TIMERS = {
  acceptTimeoutMs: 4_000,
  pingIntervalMs: 10_000,
  pongTimeoutMs: 5_000,
  resumeWindowMs: 40_000,
};
const HABITS = { sayEveryMs: 200, ask: { paceMs: 50, minParts: 1, maxParts: 40, thinkMs: 100 } };
/** Average times, in milliseconds: between two failures of the connections of one leg, and between two others. */
const STORM_MS = 250;
const ACT_MS = 1_500;
/** Shorter than what is left of a lease at any time. */
const MAX_PAUSE_MS = 2_000;
const REST_MS = 60_000;

export async function runFaults(options: FaultsOptions): Promise<Report> {
  const { nodes, plant, log } = options;
  const settings = { drainMs: 10_000, returnWithinMs: 1_000, more: { plant }, log, hasGuards: true };
  await using members = await Members.start(nodes, settings);
  return await new Faults(options, members).run();
}

class Faults {
  readonly #options: FaultsOptions;
  readonly #members: Members;
  readonly #ledger = new Ledger();
  readonly #over = new AbortController();
  readonly #acts = new Map<string, number>();
  #attempts = 0;
  #users = 0;

  constructor(options: FaultsOptions, members: Members) {
    this.#options = options;
    this.#members = members;
  }

  async run(): Promise<Report> {
    const { sessions, seconds } = this.#options;
    const { outside } = this.#members;
    const users = Array.from({ length: sessions }, () => this.#use());
    const end = performance.now() + seconds * 1_000;
    await outside.call('storm', STORM_MS);
    while (performance.now() < end) {
      await sleep(Math.random() * 2 * ACT_MS);
      await this.#act();
    }
    const counts = await outside.call('calm');
    this.#over.abort();
    const faults: string[] = [];
    const isAtRest = await Promise.race([
      Promise.all(users).then(() => true),
      sleep(REST_MS, false, { ref: false }),
    ]);
    if (!isAtRest) faults.push(`not everything came back within ${REST_MS} ms`);
    const served = await outside.call('served');
    faults.push(...this.#ledger.check(served, this.#members));
    const acts = [...this.#acts].map(([name, count]) => `${count} × ${name}`).join(', ');
    const led = (await this.#members.logged()).get('session.led') ?? 0;
    const lines = [
      `faults: ${acts || 'none'}; ${counts.cuts} connections cut, ${counts.freezes} frozen, ${counts.delays} slowed down, ${counts.outages} outages`,
      `  ${this.#ledger.arrived} parts and echoes arrived in ${this.#users} sessions, which were led ${led} times`,
      `  ${this.#ledger.lost} sessions ended with their nodes`,
    ];
    return { faults, lines };
  }

  /** One session after another, as nodes are killed. */
  async #use(): Promise<void> {
    while (!this.#over.signal.aborted) {
      const user = await this.#open();
      if (user === undefined) continue;
      user.begin(HABITS, this.#over.signal);
      await user.rest();
      await user.close();
    }
  }

  async #open(): Promise<User | undefined> {
    const { url } = this.#members;
    const reconnect = { minDelayMs: 5, maxDelayMs: 300 };
    const name = `user-${this.#attempts++}`;
    try {
      const user = await User.open({ url, name, ledger: this.#ledger, timers: TIMERS, reconnect });
      this.#users++;
      return user;
    } catch {
      // The first attempt is not repeated, and it may be cut like any other.
      await sleep(50);
      return undefined;
    }
  }

  #note(act: string, node: string, pauseMs: number): void {
    const { log } = this.#options;
    if (log === undefined) return;
    const line = { time: new Date().toISOString(), act, node, pauseMs: Math.round(pauseMs) };
    appendFileSync(log, `${JSON.stringify(line)}\n`);
  }

  async #act(): Promise<void> {
    const { redis, alive } = this.#members;
    const member = alive[Math.floor(Math.random() * alive.length)];
    if (member === undefined) return;
    const pauseMs = Math.random() * MAX_PAUSE_MS;
    const acts: readonly (readonly [string, () => Promise<void>])[] = [
      [
        'node killed',
        async () => {
          await this.#members.kill(member);
          await sleep(pauseMs / 4);
          await this.#members.add();
        },
      ],
      ['node paused', () => paused(member.process.pid, pauseMs)],
      [
        'engine killed',
        async () => {
          await redis.kill();
          await sleep(pauseMs);
          await redis.restart();
        },
      ],
      [
        'engine paused',
        async () => {
          redis.pause();
          await sleep(pauseMs);
          redis.go();
        },
      ],
      [
        'engine emptied',
        async () => {
          await redis.client.flushall();
        },
      ],
    ];
    const chosen = acts[Math.floor(Math.random() * acts.length)];
    if (chosen === undefined) return;
    const [name, act] = chosen;
    this.#acts.set(name, (this.#acts.get(name) ?? 0) + 1);
    this.#note(name, member.incarnation, pauseMs);
    await act();
    this.#note(`${name}: over`, member.incarnation, pauseMs);
  }
}

async function paused(pid: number, ms: number): Promise<void> {
  process.kill(pid, 'SIGSTOP');
  await sleep(ms);
  process.kill(pid, 'SIGCONT');
}
