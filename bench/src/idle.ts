import { setTimeout as sleep } from 'node:timers/promises';
import { openConnections, startContestant, stopContestant } from './echo/contestant.js';
import { maxConnections } from './load/open-files.js';
import { type BenchOptions, compare, type Row } from './row.js';
import type { SystemName } from './systems/system.js';

/**
 * Ten thousand idle sessions: one process opens them, another one holds them, and each system has its own
 * pair of processes. They stay open for longer than a PING interval, and then each one must still echo.
 */

const SYSTEMS: readonly SystemName[] = ['ws', 'session', 'socket.io'];
const KB = 1024;
/** Kilobytes by which the heap per idle session may exceed the heap per `ws` connection. */
const HEAP_MARGIN = 5;

interface Held {
  readonly count: number;
  /** Kilobytes per session. */
  readonly heap: number;
  readonly resident: number;
  /** Microseconds of the server's CPU per second and session. */
  readonly cpu: number;
}

export async function* run({ quick }: BenchOptions): AsyncGenerator<Row> {
  const asked = quick ? 1_000 : 10_000;
  const most = maxConnections();
  const connections = Math.min(asked, most);
  console.error(`the limit of open files (ulimit -n) allows ${most} connections; ${connections} are opened`);
  const found = new Map<SystemName, Held>();
  for (const name of SYSTEMS) found.set(name, await hold(name, connections, quick ? 2_000 : 65_000));

  const ws = found.get('ws') as Held;
  for (const [name, held] of found) {
    const row = (what: string, unit: string, key: keyof Held, target?: () => Row['target']) =>
      compare(`${what} ${name}`, unit, 'lower', held[key], { name: 'ws', value: ws[key] }, target);
    yield compare(`held ${name}`, 'open', 'higher', held.count, { name: 'asked', value: asked }, (ratio) =>
      name === 'session' ? { text: 'all', met: ratio === 1 } : undefined,
    );
    yield row('idle heap', 'KB', 'heap', () =>
      name === 'session'
        ? { text: `<= +${HEAP_MARGIN} KB`, met: held.heap - ws.heap <= HEAP_MARGIN }
        : undefined,
    );
    yield row('idle memory', 'KB', 'resident');
    yield row('idle cpu', 'us/s', 'cpu');
  }
}

async function hold(name: SystemName, connections: number, forMs: number): Promise<Held> {
  const contestant = await startContestant(name);
  const { server, load } = contestant;
  try {
    const memory0 = await server.call('memory');
    await openConnections(contestant, { connections, size: 100, depth: 1, exchange: 'message' });
    const memory1 = await server.call('memory');
    const mark0 = await server.call('mark');
    await sleep(forMs);
    const mark1 = await server.call('mark');
    // `stop` waits for every echo, so this proves that each session still works.
    await load.call('start');
    await load.call('stop');
    const { echoes } = await load.call('mark');
    const each = (key: 'heapUsed' | 'rss') => (memory1[key] - memory0[key]) / KB / connections;
    return {
      count: Math.min(await server.call('connections'), echoes),
      heap: each('heapUsed'),
      resident: each('rss'),
      cpu: (mark1.cpuUs - mark0.cpuUs) / (forMs / 1_000) / connections,
    };
  } finally {
    stopContestant(contestant);
  }
}
