import { type Child, startChild } from '../../../scripts/child-process.js';
import { atLeast, compare, type Row } from '../row.js';
import { median } from '../statistics.js';
import type { RelayLoadCommands } from './load.js';
import type { RelayName } from './relays.js';
import type { RelayServerCommands } from './server.js';

const SIZES = [100, 1024, 16 * 1024] as const;
const DEPTH = 64;
const MIN_RATE = 0.7;

export interface MessagesPlan {
  readonly rounds: number;
  readonly windowMs: number;
  /** Messages that are sent one at a time. */
  readonly count: number;
}

interface Contestant {
  readonly name: RelayName;
  readonly server: Child<RelayServerCommands>;
  readonly load: Child<RelayLoadCommands>;
}

interface Measured {
  readonly rate: number;
  readonly cpu: number;
  readonly latency: number;
}
type Results = Readonly<Record<RelayName, Measured[]>>;

/**
 * One-way messages of one pair against the same through a bare relay. Relay and agents are two processes for
 * each system, and the two systems take turns in short windows.
 */
export async function* measureMessages(plan: MessagesPlan): AsyncGenerator<Row> {
  for (const size of SIZES) {
    yield* rowsOf(size, await measureSize(size, plan));
  }
}

/** New processes for each size: how V8 collects garbage depends on the history of a process. */
async function measureSize(size: number, plan: MessagesPlan): Promise<Results> {
  const { rounds, windowMs } = plan;
  const results: Results = { session: [], ws: [] };
  const contestants = (['ws', 'session'] as const).map(start);
  try {
    for (const { server, load } of contestants) {
      await load.call('open', { port: await server.call('port'), size, pairs: 1 });
      await load.call('flood', { depth: DEPTH, windowMs });
    }
    for (let round = 0; round < rounds; round++) {
      for (const each of round % 2 === 0 ? contestants : contestants.toReversed())
        results[each.name].push(await measure(each, plan));
    }
    for (const { server, load } of contestants) {
      await load.call('close');
      const { recoded } = await server.call('mark');
      if (recoded > 0) throw new Error(`${recoded} bodies were recoded instead of forwarded unchanged`);
    }
    return results;
  } finally {
    for (const { server, load } of contestants) {
      load.stop();
      server.stop();
    }
  }
}

function start(name: RelayName): Contestant {
  return {
    name,
    server: startChild<RelayServerCommands>(new URL('./server.ts', import.meta.url), [name], ['--expose-gc']),
    load: startChild<RelayLoadCommands>(new URL('./load.ts', import.meta.url), [name]),
  };
}

async function measure({ server, load }: Contestant, { windowMs, count }: MessagesPlan): Promise<Measured> {
  const before = await server.call('mark');
  const { messages, ms } = await load.call('flood', { depth: DEPTH, windowMs });
  const after = await server.call('mark');
  const latency = await load.call('latency', { count });
  return { rate: (messages / ms) * 1000, cpu: (after.cpuUs - before.cpuUs) / messages, latency };
}

function* rowsOf(size: number, results: Results): Generator<Row> {
  const of = (name: RelayName, field: keyof Measured) =>
    median(results[name].map((measured) => measured[field]));
  const row = (
    what: string,
    unit: string,
    better: Row['better'],
    field: keyof Measured,
    target?: Parameters<typeof compare>[5],
  ) => {
    const ws = { name: 'ws', value: of('ws', field) };
    return compare(`relay ${size} B, ${what}`, unit, better, of('session', field), ws, target);
  };
  yield row(`${DEPTH} under way`, 'msg/s', 'higher', 'rate', atLeast(MIN_RATE));
  yield row(`${DEPTH} under way`, 'us/msg', 'lower', 'cpu');
  yield row('one at a time', 'ms', 'lower', 'latency');
}
