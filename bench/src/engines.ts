import { setTimeout as sleep } from 'node:timers/promises';
import { type Child, startChild } from '../../scripts/child-process.js';
import type { EngineLoadCommands, ReplyKind } from './engines/load.js';
import type { EngineName, EngineNodeCommands, NodeSetup } from './engines/node.js';
import { ENGINES, type EngineServer, START } from './engines/servers.js';
import { DURABLE } from './engines/wish.js';
import { type BenchOptions, compare, type Row } from './row.js';
import { median, quantile } from './statistics.js';

/**
 * The costs of each engine: a commit of a session that is written by itself, and parts of replies of durable sessions
 * and of kept replies beside plain ones of the same node. Each engine, its node and the load are processes of their own, and
 * the engines take turns in windows.
 */

const SESSIONS = 64;
const REPLIES = 100;
const PACE_MS = 33;
const KINDS: readonly ReplyKind[] = ['plain', 'durable', 'kept'];
/** Of the node's time that a durable part may take more than a plain one. */
const MAX_CPU_US = 40;
const BOUNDED: readonly EngineName[] = ['sqlite', 'redis'];

interface Contestant {
  readonly name: EngineName;
  readonly server: EngineServer;
  readonly node: Child<EngineNodeCommands>;
  readonly port: number;
}

/** Of one window. */
interface CommitWindow {
  readonly p50: number;
  readonly p99: number;
  readonly perSecond: number;
  readonly cpuUs: number;
  readonly bytes: number;
}

interface PartWindow {
  readonly p50: number;
  readonly p99: number;
  readonly cpuUs: number;
  /** Of the engine, for 1,000 parts. */
  readonly kilobytes: number;
}

export async function* run({ quick }: BenchOptions): AsyncGenerator<Row> {
  const [rounds, windowMs] = quick ? [2, 800] : [5, 1_500];
  const load = startChild<EngineLoadCommands>(new URL('./engines/load.ts', import.meta.url), []);
  const contestants: Contestant[] = [];
  try {
    for (const name of ENGINES) contestants.push(await begin(name, load));
    const commits = new Map<EngineName, CommitWindow[]>(ENGINES.map((name) => [name, []]));
    const parts = new Map<string, PartWindow[]>();
    // The first round is for the JIT compiler.
    for (let round = -1; round < rounds; round++) {
      for (const each of round % 2 === 0 ? contestants : contestants.toReversed()) {
        const commit = await measureCommits(each, windowMs / 2);
        if (round >= 0) commits.get(each.name)?.push(commit);
        for (const kind of round % 2 === 0 ? KINDS : KINDS.toReversed()) {
          const part = await measureParts(each, load, kind, windowMs);
          const key = `${each.name} ${kind}`;
          if (round >= 0) parts.set(key, [...(parts.get(key) ?? []), part]);
        }
      }
    }
    yield* commitRows(commits);
    yield* partRows(parts);
  } finally {
    await load.kill();
    for (const { node, server } of contestants) {
      await node.kill();
      await server.close();
    }
  }
}

async function begin(name: EngineName, load: Child<EngineLoadCommands>): Promise<Contestant> {
  const server = await START[name]();
  const setup: NodeSetup = { engine: name, at: server.at };
  const node = startChild<EngineNodeCommands>(new URL('./engines/node.ts', import.meta.url), [
    JSON.stringify(setup),
  ]);
  const port = await node.call('port');
  for (const token of ['plain', DURABLE]) await load.call('open', { port, token, count: REPLIES });
  if ((await node.call('durable')) !== REPLIES) throw new Error('the sessions are not durable');
  return { name, server, node, port };
}

async function mark({ server, node }: Contestant) {
  const { wroteBytes, ...rest } = await node.call('mark');
  return { ...rest, bytes: (await server.written()) ?? wroteBytes };
}

async function measureCommits(each: Contestant, forMs: number): Promise<CommitWindow> {
  const { p50, p99 } = await each.node.call('commit', { sessions: 1, forMs });
  const before = await mark(each);
  const from = performance.now();
  await each.node.call('commit', { sessions: SESSIONS, forMs });
  const seconds = (performance.now() - from) / 1_000;
  const after = await mark(each);
  const count = after.written - before.written;
  return {
    ...{ p50, p99, perSecond: count / seconds },
    cpuUs: (after.cpuUs - before.cpuUs) / count,
    bytes: (after.bytes - before.bytes) / count,
  };
}

async function measureParts(
  each: Contestant,
  load: Child<EngineLoadCommands>,
  kind: ReplyKind,
  forMs: number,
): Promise<PartWindow> {
  await load.call('start', { port: each.port, kind, paceMs: PACE_MS });
  await sleep(300);
  await load.call('delays');
  const before = await mark(each);
  await sleep(forMs);
  const after = await mark(each);
  const delays = await load.call('delays');
  await load.call('stop');
  const count = after.parts - before.parts;
  return {
    p50: quantile(delays, 0.5),
    p99: quantile(delays, 0.99),
    cpuUs: (after.cpuUs - before.cpuUs) / count,
    kilobytes: (after.bytes - before.bytes) / count,
  };
}

function* commitRows(commits: ReadonlyMap<EngineName, readonly CommitWindow[]>): Generator<Row> {
  for (const [what, unit, better, key] of [
    ['a commit of one session, p50', 'ms', 'lower', 'p50'],
    ['a commit of one session, p99', 'ms', 'lower', 'p99'],
    [`commits of ${SESSIONS} sessions`, '1/s', 'higher', 'perSecond'],
    [`CPU of a commit, ${SESSIONS} sessions`, 'us', 'lower', 'cpuUs'],
  ] as const) {
    const base = figures(commits.get('memory') ?? [], key);
    for (const [name, windows] of commits) {
      const own = figures(windows, key);
      const row = compare(`${what}: ${name}`, unit, better, own.value, { name: 'memory', value: base.value });
      yield { ...row, quartiles: own.quartiles };
    }
  }
  const said = { name: 'what it says', value: COMMIT_BYTES };
  for (const [name, windows] of commits) {
    if (name === 'memory') continue;
    const own = figures(windows, 'bytes');
    const row = compare(`written for a commit: ${name}`, 'B', 'lower', own.value, said);
    yield { ...row, quartiles: own.quartiles };
  }
}

/** Of the message and the state. */
const COMMIT_BYTES = 300;
/** Of a time. */
const PART_BYTES = 16;

function* partRows(parts: ReadonlyMap<string, readonly PartWindow[]>): Generator<Row> {
  const of = (name: EngineName, kind: ReplyKind) => parts.get(`${name} ${kind}`) ?? [];
  for (const kind of ['durable', 'kept'] as const)
    for (const [what, unit, key] of [
      ['p50', 'ms', 'p50'],
      ['p99', 'ms', 'p99'],
      ['CPU', 'us', 'cpuUs'],
    ] as const)
      for (const name of ENGINES) {
        const own = figures(of(name, kind), key);
        const plain = figures(of(name, 'plain'), key);
        const isBounded = key === 'cpuUs' && kind === 'durable' && BOUNDED.includes(name);
        const more = own.value - plain.value;
        const target = isBounded ? { text: `<= +${MAX_CPU_US} us`, met: more <= MAX_CPU_US } : undefined;
        const baseline = { name: `plain (+${more.toFixed(key === 'cpuUs' ? 0 : 2)})`, value: plain.value };
        const row = compare(
          `a ${kind} part, ${what}: ${name}`,
          unit,
          'lower',
          own.value,
          baseline,
          () => target,
        );
        yield { ...row, quartiles: own.quartiles };
      }
  const said = { name: 'what they say', value: PART_BYTES };
  for (const kind of ['durable', 'kept'] as const)
    for (const name of ENGINES) {
      if (name === 'memory') continue;
      const own = figures(of(name, kind), 'kilobytes');
      const row = compare(`written for 1,000 ${kind} parts: ${name}`, 'kB', 'lower', own.value, said);
      yield { ...row, quartiles: own.quartiles };
    }
}

function figures<Window>(windows: readonly Window[], key: keyof Window) {
  const values = windows.map((each) => Number(each[key]));
  const quartiles = [quantile(values, 0.25), quantile(values, 0.75)] as const;
  return { value: median(values), quartiles };
}
