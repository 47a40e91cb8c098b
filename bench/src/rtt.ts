import { startChild } from '../../scripts/child-process.js';
import type { ServerCommands } from './process/server.js';
import { type BenchOptions, compare, type Row } from './row.js';
import { createDelayingProxy, type DelayingProxy } from './rtt/delaying-proxy.js';
import { type Times, WAYS } from './rtt/ways.js';
import { median, quantile } from './statistics.js';
import type { SystemName } from './systems/system.js';

/**
 * How long a client waits until it is ready and has its first reply, over networks whose round trips take some time. Each
 * server has a process of its own, and a proxy before it that delays what passes; the ways take turns.
 */

const RTTS = [0, 40, 150];
/** Connections of each way. */
const TIMES = { full: [101, 31, 15], quick: [15, 5, 3] };

export async function* run({ quick }: BenchOptions): AsyncGenerator<Row> {
  for (const [index, rttMs] of RTTS.entries()) {
    const times = TIMES[quick ? 'quick' : 'full'][index] as number;
    yield* rowsOf(rttMs, await measure(rttMs, times));
  }
}

type Results = ReadonlyMap<string, readonly Times[]>;

async function measure(rttMs: number, times: number): Promise<Results> {
  const proxies = new Map<SystemName, DelayingProxy>();
  const ends: (() => unknown)[] = [];
  const results = new Map<string, Times[]>(WAYS.map(({ name }) => [name, []]));
  try {
    for (const system of new Set(WAYS.map((way) => way.system))) {
      const server = startChild<ServerCommands>(new URL('./process/server.ts', import.meta.url), [system]);
      ends.push(() => server.stop());
      const proxy = await createDelayingProxy(await server.call('port'), rttMs);
      ends.push(() => proxy[Symbol.asyncDispose]());
      proxies.set(system, proxy);
    }
    // The first round is not counted: modules are loaded and compiled in it.
    for (let round = -1; round < times; round++) {
      for (const { name, system, connect } of WAYS) {
        const taken = await connect(proxies.get(system) as DelayingProxy);
        if (round >= 0) results.get(name)?.push(taken);
      }
    }
  } finally {
    for (const end of ends.reverse()) await end();
  }
  return results;
}

function* rowsOf(rttMs: number, results: Results): Generator<Row> {
  for (const what of ['ready', 'reply'] as const) {
    const valuesOf = (name: string) => (results.get(name) ?? []).map((times) => times[what]);
    const baseline = { name: 'ws', value: median(valuesOf('ws')) };
    const title = what === 'ready' ? 'ready' : 'first reply';
    for (const { name } of WAYS) {
      const values = valuesOf(name);
      const row = compare(`${title} ${name}, ${rttMs} ms`, 'ms', 'lower', median(values), baseline);
      yield { ...row, quartiles: [quantile(values, 0.25), quantile(values, 0.75)] };
    }
  }
}
