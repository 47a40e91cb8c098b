import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Child, startChild } from '../../../../scripts/child-process.js';
import type { CrowdCommands, CrowdSetup } from './crowd.js';
import { Ledger } from './ledger.js';
import { type Member, Members } from './members.js';
import { distribution } from './pace.js';
import type { Plant } from './plant.js';
import { trustingSocket } from './trusting-socket.js';
import { type Habits, User } from './user.js';

/** A deploy that users should not notice: every node is replaced, one after another, while it is in use. */

export interface DeployOptions {
  readonly nodes: number;
  /** Sessions with one streamed answer after another. */
  readonly streams: number;
  /** Sessions that say something four times a second, so that a gap is seen. */
  readonly busy: number;
  /** Sessions that say something once a minute. */
  readonly idle: number;
  readonly drainMs: number;
  readonly returnWithinMs: number;
  readonly plant: Plant | undefined;
  /** A file for what the nodes log. */
  readonly log: string | undefined;
}

export interface Report {
  readonly faults: readonly string[];
  readonly lines: readonly string[];
}

const BUSY_MS = 250;
const IDLE_MS = 60_000;
const ASK = { paceMs: 100, minParts: 10, maxParts: 50, thinkMs: 500 };
/** Connections that are opened at the same time. */
const AT_ONCE = 16;
/** How long the cluster is watched before anything is replaced, and between two replacements, in milliseconds. */
const QUIET_MS = 3_000;
const CALM_MS = 1_000;
const REST_MS = 30_000;
const MAX_COMMANDS = 5;
/** The commands of nodes; others are parts of scripts. */
const SENT: ReadonlySet<string> = new Set(['eval', 'evalsha', 'xread', 'hello', 'client|setinfo']);

export async function runDeploy(options: DeployOptions): Promise<Report> {
  const sessions = options.streams + options.busy + options.idle;
  await using members = await Members.start(options.nodes, {
    ...options,
    // One that moves has two for a moment.
    maxConnections: 1.5 * sessions,
    more: { plant: options.plant },
    hasGuards: false,
  });
  return await new Deploy(options, members).run();
}

class Deploy {
  readonly #options: DeployOptions;
  readonly #members: Members;
  readonly #ledger = new Ledger();
  readonly #users: User[] = [];
  readonly #over = new AbortController();
  readonly #gaps = { between: [] as number[], streaming: [] as number[], others: [] as number[] };
  readonly #lines: string[] = [];
  readonly #faults: string[] = [];
  readonly #WebSocket: ReturnType<typeof trustingSocket>;
  readonly #crowd: Child<CrowdCommands>;
  #commandsPerMs = 0;
  #nextUser = 0;

  constructor(options: DeployOptions, members: Members) {
    this.#options = options;
    this.#members = members;
    const { urls, certificate } = members;
    this.#WebSocket = trustingSocket(certificate);
    const setup: CrowdSetup = { urls, certificate, count: options.idle, sayEveryMs: IDLE_MS };
    this.#crowd = startChild(new URL('./crowd.ts', import.meta.url), [JSON.stringify(setup)]);
  }

  async run(): Promise<Report> {
    const { streams, busy, idle, nodes } = this.#options;
    await this.#crowd.call('open');
    await this.#open(busy, { sayEveryMs: BUSY_MS, isEven: true });
    await this.#open(streams, { ask: ASK });
    await this.#watch();
    for (const member of [...this.#members.alive]) await this.#replace(member);
    this.#over.abort();
    const isAtRest = await Promise.race([
      Promise.all(this.#users.map((user) => user.rest())).then(() => true),
      sleep(REST_MS, false),
    ]);
    if (!isAtRest) this.#faults.push(`not everything came back within ${REST_MS} ms`);
    const { outside } = this.#members;
    const served = await outside.call('served');
    const faults = [
      ...this.#faults,
      ...this.#ledger.check(served, this.#members),
      ...(await this.#crowd.call('rest', REST_MS)),
    ];
    const arrived = this.#ledger.arrived + (await this.#crowd.call('arrived'));
    await this.#crowd.kill();
    const asked = served.reduce((sum, { times }) => sum + times, 0);
    const { between, streaming, others } = this.#gaps;
    const report = {
      faults,
      lines: [
        `deploy: ${nodes} nodes replaced under ${streams} streams, ${busy} busy and ${idle} idle sessions`,
        ...this.#lines,
        `  ${arrived} parts and echoes arrived; ${asked} upstream requests for ${this.#ledger.questions} questions`,
        `  gap of sessions that moved, not streaming: ${distribution(between)}`,
        `  … that moved with a stream under way: ${distribution(streaming)}`,
        `  … that stayed where they were meanwhile: ${distribution(others)}`,
      ],
    };
    await Promise.all(this.#users.map((user) => user.close()));
    return report;
  }

  async #open(count: number, habits: Habits): Promise<void> {
    const { urls } = this.#members;
    let left = count;
    const openSome = async () => {
      while (left-- > 0) {
        const number = this.#nextUser++;
        const user = await User.open({
          url: urls[number % urls.length] as string,
          ledger: this.#ledger,
          name: `user-${number}`,
          WebSocket: this.#WebSocket,
        });
        user.begin(habits, this.#over.signal);
        this.#users.push(user);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, openSome));
  }

  /** Measures what the engine does while nothing happens. */
  async #watch(): Promise<void> {
    const [before, start] = [await this.#commands(), performance.now()];
    await sleep(QUIET_MS);
    this.#commandsPerMs = ((await this.#commands()) - before) / (performance.now() - start);
  }

  async #replace(member: Member): Promise<void> {
    const owned = new Set(await member.process.call('sessions'));
    const [before, start] = [await this.#commands(), performance.now()];
    const turns = monitorEventLoopDelay({ resolution: 5 });
    turns.enable();
    for (const { pace } of this.#users) pace?.begin();
    const { tookMs, cpuMs, hasEnded } = await this.#members.stop(member);
    if (!hasEnded) this.#faults.push(`node ${member.incarnation} did not end after its drain`);
    const now = performance.now();
    turns.disable();
    for (const { session, pace, lost, isAsking } of this.#users) {
      if (pace === undefined || lost.signal.aborted) continue;
      this.#gapsOf(owned.has(session.id), isAsking).push(pace.end(now));
    }
    const moved = await this.#countElsewhere(owned);
    const idleCommands = this.#commandsPerMs * (performance.now() - start);
    const commands = ((await this.#commands()) - before - idleCommands) / Math.max(1, owned.size);
    const took = `${Math.round(tookMs)} ms (${Math.round(cpuMs)} ms of processor time)`;
    const each = `${commands.toFixed(1)} engine commands for each`;
    const longest = `turns of the clients: p99 ${inMs(turns.percentile(99))}, most ${inMs(turns.max)}`;
    this.#lines.push(
      `  node ${member.incarnation} ended after ${took}: ${moved} of ${owned.size} sessions moved, ${each}; ${longest}`,
    );
    if (commands > MAX_COMMANDS)
      this.#faults.push(
        `engine: ${commands.toFixed(1)} commands for each moved session, not ${MAX_COMMANDS}`,
      );
    await this.#members.add();
    await sleep(CALM_MS);
  }

  #gapsOf(hasMoved: boolean, isAsking: boolean): number[] {
    if (!hasMoved) return this.#gaps.others;
    return isAsking ? this.#gaps.streaming : this.#gaps.between;
  }

  async #countElsewhere(sessions: ReadonlySet<string>): Promise<number> {
    let count = 0;
    for (const { process: child } of this.#members.alive)
      for (const id of await child.call('sessions')) if (sessions.has(id)) count++;
    return count;
  }

  /** Commands that nodes have sent to the engine: it counts those of scripts as well, which these are all made of. */
  async #commands(): Promise<number> {
    const { client } = this.#members.redis;
    let sum = 0;
    for (const [, name, calls] of (await client.info('commandstats')).matchAll(
      /^cmdstat_(\S+?):calls=(\d+)/gm,
    ))
      if (name !== undefined && SENT.has(name)) sum += Number(calls);
    return sum;
  }
}

const inMs = (nanoseconds: number): string => `${Math.round(nanoseconds / 1e6)} ms`;
