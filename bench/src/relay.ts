import { type Remote, startRemote } from './process/channel.js';
import type { RelayLoadCommands } from './relay/load.js';
import type { RelayName, RelayServerCommands } from './relay/server.js';
import { atLeast, type BenchOptions, compare, type Row } from './row.js';
import { median } from './statistics.js';

/**
 * One-way messages from agent to agent through a session server, beside a bare relay on `ws` that hands
 * on what it receives. Relay and agents are two processes each; the two systems take turns in short
 * windows, because a shared machine is slow now and then: trust ratios and CPU, not rates.
 */

const SIZES = [100, 1024, 16 * 1024] as const;
const DEPTH = 64;

interface Contestant {
  readonly name: RelayName;
  readonly server: Remote<RelayServerCommands>;
  readonly load: Remote<RelayLoadCommands>;
  readonly port: number;
}

interface Measured {
  readonly rate: number;
  readonly cpu: number;
  readonly latency: number;
}

export async function* run({ quick }: BenchOptions): AsyncGenerator<Row> {
  const [rounds, windowMs, count] = quick ? [3, 1000, 200] : [9, 2000, 500];
  const contestants = await Promise.all((['ws', 'session'] as const).map(start));
  try {
    for (const size of SIZES) {
      const results = new Map<RelayName, Measured[]>(contestants.map(({ name }) => [name, []]));
      for (const { load, port } of contestants) {
        await load.call('open', { port, size });
        await load.call('flood', { depth: DEPTH, windowMs });
      }
      for (let round = 0; round < rounds; round++) {
        for (const each of round % 2 === 0 ? contestants : contestants.toReversed())
          results.get(each.name)?.push(await measure(each, windowMs, count));
      }
      for (const { load } of contestants) await load.call('close');
      const of = (name: RelayName, field: keyof Measured) =>
        median((results.get(name) ?? []).map((measured) => measured[field]));
      const row = (
        what: string,
        unit: string,
        field: keyof Measured,
        target?: Parameters<typeof compare>[5],
      ) =>
        compare(
          `relay ${size} B, ${what}`,
          unit,
          field === 'rate' ? 'higher' : 'lower',
          of('session', field),
          { name: 'ws', value: of('ws', field) },
          target,
        );
      yield row(`${DEPTH} under way`, 'msg/s', 'rate', atLeast(0.7));
      yield row(`${DEPTH} under way`, 'us/msg', 'cpu');
      yield row('one at a time', 'ms', 'latency');
    }
    const session = contestants.find(({ name }) => name === 'session') as Contestant;
    const { recoded } = await session.server.call('mark');
    if (recoded > 0) throw new Error(`${recoded} bodies were coded anew, which should pass as they are`);
  } finally {
    for (const { server, load } of contestants) {
      load.stop();
      server.stop();
    }
  }
}

async function start(name: RelayName): Promise<Contestant> {
  const server = startRemote<RelayServerCommands>(new URL('./relay/server.ts', import.meta.url), [name]);
  const load = startRemote<RelayLoadCommands>(new URL('./relay/load.ts', import.meta.url), [name]);
  return { name, server, load, port: await server.call('port') };
}

async function measure({ server, load }: Contestant, windowMs: number, count: number): Promise<Measured> {
  const before = await server.call('mark');
  const { messages, ms } = await load.call('flood', { depth: DEPTH, windowMs });
  const after = await server.call('mark');
  const latency = await load.call('latency', { count });
  return { rate: (messages / ms) * 1000, cpu: (after.cpuUs - before.cpuUs) / messages, latency };
}
