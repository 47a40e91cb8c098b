import { setTimeout as sleep } from 'node:timers/promises';
import { closeConnections, openConnections, startContestant, stopContestant } from './echo/contestant.js';
import { maxConnections } from './load/open-files.js';
import { type BenchOptions, compare, type Row } from './row.js';
import type { SystemName } from './systems/system.js';

/**
 * Ten thousand idle sessions: one process opens them, another one holds them, and each system has its own
 * pair of processes. Their memory is measured before any message, and ten seconds after each has echoed one. They stay
 * open for longer than a PING interval, and then each one must still echo.
 */

const SYSTEMS: readonly SystemName[] = ['ws', 'session', 'socket.io'];
const KB = 1024;
/** Kilobytes of heap that a session may take which has carried nothing. */
const UNUSED_HEAP = 7;
/** The same for one that has carried a message and is idle again for ten seconds, and its memory outside the heap. */
const RESTED_HEAP = 8;
const RESTED_OUTSIDE = 0.1;
/** Connections that come and go before the others, and milliseconds for which they echo. */
const WARM_UP = 200;
const WARM_UP_MS = 1_000;
/** Milliseconds in which a session comes to rest. */
const REST_MS = 10_000;

interface Held {
  readonly count: number;
  /** Kilobytes per session, before its first message. */
  readonly heap: number;
  readonly resident: number;
  /** The same, ten seconds after a message. */
  readonly restedHeap: number;
  readonly restedOutside: number;
  /** Microseconds of the server's CPU per second and session. */
  readonly cpu: number;
}

export async function* run({ quick }: BenchOptions): AsyncGenerator<Row> {
  const asked = quick ? 4_000 : 10_000;
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
    const atMost = (key: keyof Held, most: number) => () =>
      name === 'session' ? { text: `<= ${most} KB`, met: held[key] <= most } : undefined;
    yield row('unused heap', 'KB', 'heap', atMost('heap', UNUSED_HEAP));
    yield row('unused memory', 'KB', 'resident');
    yield row('rested heap', 'KB', 'restedHeap', atMost('restedHeap', RESTED_HEAP));
    yield compare(
      `rested outside heap ${name}`,
      'KB',
      'lower',
      held.restedOutside,
      { name: 'its heap', value: held.restedHeap },
      atMost('restedOutside', RESTED_OUTSIDE),
    );
    yield row('idle cpu', 'us/s', 'cpu');
  }
}

async function hold(name: SystemName, connections: number, forMs: number): Promise<Held> {
  const contestant = await startContestant(name);
  const { server, load } = contestant;
  try {
    const crowd = { size: 100, depth: 1, exchange: 'message' } as const;
    // The warm-up compiles the code, which is not part of a session.
    await openConnections(contestant, { ...crowd, connections: WARM_UP });
    await load.call('start');
    await sleep(WARM_UP_MS);
    await load.call('stop');
    await closeConnections(contestant);
    const memory0 = await server.call('memory');
    await openConnections(contestant, { ...crowd, connections });
    const memory1 = await server.call('memory');
    await load.call('start');
    await load.call('stop');
    const { echoes: before } = await load.call('mark');
    await sleep(REST_MS);
    const memory2 = await server.call('memory');
    const mark0 = await server.call('mark');
    await sleep(forMs);
    const mark1 = await server.call('mark');
    // `stop` waits for every echo, so this proves that each session still works.
    await load.call('start');
    await load.call('stop');
    const { echoes } = await load.call('mark');
    const each = (memory: NodeJS.MemoryUsage, key: keyof NodeJS.MemoryUsage) =>
      (memory[key] - memory0[key]) / KB / connections;
    return {
      count: Math.min(await server.call('connections'), echoes - before),
      heap: each(memory1, 'heapUsed'),
      resident: each(memory1, 'rss'),
      restedHeap: each(memory2, 'heapUsed'),
      restedOutside: each(memory2, 'external'),
      cpu: (mark1.cpuUs - mark0.cpuUs) / (forMs / 1_000) / connections,
    };
  } finally {
    stopContestant(contestant);
  }
}
