import { setTimeout as sleep } from 'node:timers/promises';
import { startRedis } from '../../packages/server/src/engine/testing/redis-server.js';
import { type Child, startChild } from '../../scripts/child-process.js';
import { measureDirectory } from './cluster/directory.js';
import type { LoadCommands, LoadOptions } from './cluster/load.js';
import { measureRelay } from './cluster/relay.js';
import type { NodeCommands } from './cluster/server.js';
import { atLeast, type BenchOptions, compare, type Row } from './row.js';
import { median } from './statistics.js';

/**
 * The costs of a cluster: echoes whose connection one node proxies to another against direct ones, and echoes of a node
 * against those of a server on its own; messages between agents of two nodes against those of one, and changes of the directory
 * of agents. Redis, each server and the load are processes of their own. The ways take turns in
 * short windows, because a shared machine is slow now and then.
 */

/** Milliseconds by which leading may delay an echo (p50). */
const MAX_DELAY_MS = 0.2;

interface Way {
  readonly name: string;
  readonly load: Child<LoadCommands>;
  readonly options: Pick<LoadOptions, 'port' | 'owner'>;
  /** The processes whose CPU counts. */
  readonly servers: readonly Child<NodeCommands>[];
}

export async function* run({ quick }: BenchOptions): AsyncGenerator<Row> {
  await using redis = await startRedis();
  const children: Child<NodeCommands | LoadCommands>[] = [];
  const serve = (...args: string[]) => {
    const child = startChild<NodeCommands>(new URL('./cluster/server.ts', import.meta.url), args);
    children.push(child);
    return child;
  };
  const [alone, owner, landing] = [serve(), serve(redis.url), serve(redis.url)];
  const [alonePort, ownerPort, landingPort] = await Promise.all(
    [alone, owner, landing].map(async (server) => await server.call('port')),
  );
  const way = (name: string, port = 0, from: number | undefined, ...servers: Child<NodeCommands>[]): Way => {
    const load = startChild<LoadCommands>(new URL('./cluster/load.ts', import.meta.url), []);
    children.push(load);
    return { name, load, servers, options: { port, owner: from } };
  };
  const embedded = way('embedded', alonePort, undefined, alone);
  const direct = way('direct', ownerPort, undefined, owner);
  const led = way('led', landingPort, ownerPort, owner, landing);
  try {
    yield* delays(direct, led, quick ? 3 : 7, quick ? 500 : 2_000);
    yield* rates([embedded, direct, led], quick ? 3 : 21, quick ? 150 : 250);
    for (const child of children.splice(0)) child.stop();
    const relayed = { rounds: quick ? 3 : 9, windowMs: quick ? 500 : 1_500, count: quick ? 200 : 500 };
    yield* measureRelay(redis, relayed);
    yield* measureDirectory(redis, quick ? 300 : 2_000);
  } finally {
    for (const child of children) child.stop();
  }
}

async function* delays(direct: Way, led: Way, rounds: number, count: number): AsyncGenerator<Row> {
  const taken = new Map<Way, number[]>([direct, led].map((each) => [each, []]));
  for (let round = 0; round < rounds; round++) {
    for (const each of round % 2 === 0 ? [direct, led] : [led, direct]) {
      const { port, owner } = each.options;
      const all = await each.load.call('latencies', { port, count, ...(owner && { owner }) });
      taken.get(each)?.push(median(all));
    }
  }
  const [base, value] = [direct, led].map((each) => median(taken.get(each) ?? []));
  const held = { name: 'direct', value: base as number };
  yield compare('echo led 1x100B depth 1, p50', 'ms', 'lower', value as number, held, () => ({
    text: `<= +${MAX_DELAY_MS} ms`,
    met: (value as number) - (base as number) <= MAX_DELAY_MS,
  }));
}

interface Window {
  readonly rate: number;
  readonly cpu: number;
}

const CASE = { connections: 64, size: 100, depth: 8, exchange: 'message' } as const;

async function* rates(ways: readonly Way[], rounds: number, windowMs: number): AsyncGenerator<Row> {
  const windows = new Map<Way, Window[]>(ways.map((each) => [each, []]));
  for (const { load, options } of ways) await load.call('open', { ...CASE, ...options });
  // The first round is for the JIT compiler.
  for (let round = -1; round < rounds; round++) {
    for (const each of round % 2 === 0 ? ways : ways.toReversed()) {
      const window = await measure(each, windowMs);
      if (round >= 0) windows.get(each)?.push(window);
    }
  }
  for (const { load } of ways) await load.call('close');
  const figure = (each: Way, key: keyof Window) =>
    median((windows.get(each) ?? []).map((window) => window[key]));
  const [embedded, direct, led] = ways as readonly [Way, Way, Way];
  for (const [each, base, least] of [
    [led, direct, 0.35],
    [direct, embedded, 0.98],
  ] as const) {
    const name = each === direct ? 'clustered, direct' : each.name;
    const row = (
      unit: string,
      better: Row['better'],
      key: keyof Window,
      target?: (ratio: number) => Row['target'],
    ) =>
      compare(
        `echo ${name} 64x100B depth 8`,
        unit,
        better,
        figure(each, key),
        { name: base.name, value: figure(base, key) },
        target,
      );
    yield row('msg/s', 'higher', 'rate', atLeast(least));
    yield row('us/msg', 'lower', 'cpu');
  }
}

async function measure({ load, servers }: Way, windowMs: number): Promise<Window> {
  const cpu = async () => {
    const marks = await Promise.all(servers.map(async (server) => await server.call('mark')));
    return marks.reduce((sum, { cpuUs }) => sum + cpuUs, 0);
  };
  await load.call('start');
  await sleep(50);
  const [cpu0, mark0] = await Promise.all([cpu(), load.call('mark')]);
  await sleep(windowMs);
  const [cpu1, mark1] = await Promise.all([cpu(), load.call('mark')]);
  await load.call('stop');
  const echoes = mark1.echoes - mark0.echoes;
  return { rate: (echoes / (mark1.atMs - mark0.atMs)) * 1000, cpu: (cpu1 - cpu0) / echoes };
}
