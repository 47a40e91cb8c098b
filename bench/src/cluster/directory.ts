import type { RedisServer } from '../../../packages/server/src/engine/testing/redis-server.js';
import { type Child, startChild } from '../../../scripts/child-process.js';
import { compare, type Row } from '../row.js';
import type { DirectoryCommands } from './directory-nodes.js';

/**
 * Changes of the directory of agents: how long until all nodes know one, and what it costs. The nodes are in one process,
 * once with Redis and once with the engine for tests, which shows what the nodes themselves cost.
 */

const NODES = 10;
const AGENTS = 10_000;
const PER_SECOND = 100;
const MAX_P99_MS = 200;

interface Measured {
  readonly p50: number;
  readonly p99: number;
  /** Of all nodes together, in microseconds. */
  readonly cpu: number;
  /** From Redis to all nodes. */
  readonly bytes: number;
}

export async function* measureDirectory(redis: RedisServer, count: number): AsyncGenerator<Row> {
  const memory = await measure('', count, async () => 0);
  const real = await measure(redis.url, count, async () => {
    const stats = await redis.client.info('stats');
    return Number(/total_net_output_bytes:(\d+)/.exec(stats)?.[1]);
  });
  const name = `directory of ${AGENTS} agents at ${NODES} nodes`;
  const row = (what: string, unit: string, key: keyof Measured, target?: (value: number) => Row['target']) =>
    compare(`${name}, ${what}`, unit, 'lower', real[key], { name: 'memory', value: memory[key] }, () =>
      target?.(real[key]),
    );
  yield row('a change seen by all, p50', 'ms', 'p50');
  yield row('a change seen by all, p99', 'ms', 'p99', (value) => ({
    text: `<= ${MAX_P99_MS} ms`,
    met: value <= MAX_P99_MS,
  }));
  yield row('CPU of all nodes', 'us/change', 'cpu');
  const told = { name: 'the entry to each node', value: ENTRY * (NODES - 1) };
  yield compare(`${name}, from Redis`, 'B/change', 'lower', real.bytes, told);
}

/** Characters of an entry, with its key. */
const ENTRY = 250;

async function measure(url: string, count: number, bytesOf: () => Promise<number>): Promise<Measured> {
  const child: Child<DirectoryCommands> = startChild(
    new URL('./directory-nodes.ts', import.meta.url),
    url === '' ? [] : [url],
  );
  try {
    await child.call('open', { count: NODES, agents: AGENTS });
    // The first changes are for the JIT compiler.
    await child.call('change', { count: 200, perSecond: PER_SECOND });
    const idleMs = 3_000;
    const idle0 = await bytesOf();
    const idleCpu = await child.call('rest', { ms: idleMs });
    const before = await bytesOf();
    const { taken, cpuUs, ms } = await child.call('change', { count, perSecond: PER_SECOND });
    const after = await bytesOf();
    await child.call('close');
    const sorted = taken.sort((a, b) => a - b);
    const at = (share: number) => sorted[Math.floor((sorted.length - 1) * share)] ?? Number.NaN;
    const part = ms / idleMs;
    return {
      p50: at(0.5),
      p99: at(0.99),
      cpu: (cpuUs - idleCpu * part) / count,
      bytes: (after - before - (before - idle0) * part) / count,
    };
  } finally {
    child.stop();
  }
}
