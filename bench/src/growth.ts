import { type Child, startChild } from '../../scripts/child-process.js';
import type { FarCommands } from './context/server.js';
import { openDeflate, openSession, type Way } from './context/ways.js';
import {
  type Contestant,
  closeConnections,
  measureWindow,
  openConnections,
  startContestant,
  stopContestant,
} from './echo/contestant.js';
import { createGrowingHistory } from './growth/history.js';
import { heldStreams } from './growth/streams.js';
import { maxConnections } from './load/open-files.js';
import { type BenchOptions, compare, type Row } from './row.js';
import { median } from './statistics.js';
import type { SystemName } from './systems/system.js';

/**
 * The cost as it grows: of a message and of a session with the number of sessions, of a part and of a stream with the
 * number of streams in one session, and of a request with the turns of its history. A cost that stays the same
 * for each of them is a straight line.
 */

const SESSIONS = [1, 10, 100, 1_000, 10_000];
const STREAMS = [1, 10, 100, 1_000];
const TURNS = [10, 40, 100, 400, 1_000, 1_600];
/** Requests measured at each length of the history. */
const REQUESTS = 8;
const KB = 1024;

export async function* run({ quick }: BenchOptions): AsyncGenerator<Row> {
  const rounds = quick ? 2 : 5;
  yield* bySessions(quick ? SESSIONS.slice(0, -1) : SESSIONS, rounds);
  yield* byStreams(rounds);
  yield* heldStreams(STREAMS.slice(2));
  yield* byTurns(quick ? TURNS.slice(0, -3) : TURNS);
}

/** Every session has two messages of 1 KB in flight. */
async function* bySessions(counts: readonly number[], rounds: number): AsyncGenerator<Row> {
  for (const count of counts.filter((count) => count <= maxConnections())) {
    const found = await inTurns(['ws', 'session'], rounds, { connections: count, size: KB, depth: 2 });
    const name = `${count} ${count === 1 ? 'session' : 'sessions'}`;
    const ws = found.get('ws') as Cost;
    const session = found.get('session') as Cost;
    yield compare(`echo of 1 KB, ${name}`, 'us/msg', 'lower', session.cpu, { name: 'ws', value: ws.cpu });
    // The heap of a few connections is lost in what a process needs anyway.
    if (count < 100) continue;
    yield compare(`heap for each of ${name}`, 'KB', 'lower', session.heap, { name: 'ws', value: ws.heap });
  }
}

/** One session whose client reads several streams of 16 parts of 100 bytes at a time. */
async function* byStreams(rounds: number): AsyncGenerator<Row> {
  for (const depth of STREAMS) {
    const work = { connections: 1, size: 100, depth, exchange: 'stream' } as const;
    const found = await inTurns(['ws+id', 'session'], rounds, work);
    const [baseline, session] = [found.get('ws+id') as Cost, found.get('session') as Cost];
    yield compare(
      `part, ${depth} ${depth === 1 ? 'stream' : 'streams'} in a session`,
      'us',
      'lower',
      session.cpu,
      {
        name: 'ws+id',
        value: baseline.cpu,
      },
    );
  }
}

/** The costs of one system at its server. */
interface Cost {
  /** Microseconds of CPU for a message. */
  readonly cpu: number;
  /** Kilobytes of heap for a connection that is open and idle. */
  readonly heap: number;
}

interface WorkOptions {
  readonly connections: number;
  readonly size: number;
  readonly depth: number;
  readonly exchange?: 'message' | 'stream';
}

async function inTurns(
  names: readonly SystemName[],
  rounds: number,
  { exchange = 'message', ...work }: WorkOptions,
): Promise<Map<SystemName, Cost>> {
  const contestants = await Promise.all(names.map(startContestant));
  try {
    const heaps = new Map<Contestant, number>();
    const cpu = new Map<Contestant, number[]>(contestants.map((each) => [each, []]));
    for (const contestant of contestants) {
      const { server } = contestant;
      const before = (await server.call('memory')).heapUsed;
      await openConnections(contestant, { ...work, exchange });
      heaps.set(contestant, ((await server.call('memory')).heapUsed - before) / KB / work.connections);
    }
    // Ten thousand connections need longer for one turn each.
    const windowMs = work.connections > 1_000 ? 1_500 : 300;
    for (let round = -1; round < rounds; round++) {
      for (const contestant of round % 2 === 0 ? contestants : contestants.toReversed()) {
        const window = await measureWindow(contestant, { rampMs: windowMs / 3, windowMs });
        if (round >= 0) cpu.get(contestant)?.push(window.cpu);
      }
    }
    for (const contestant of contestants) await closeConnections(contestant);
    return new Map(
      contestants.map((each) => [
        each.name,
        { cpu: median(cpu.get(each) ?? []), heap: heaps.get(each) ?? 0 },
      ]),
    );
  } finally {
    for (const contestant of contestants) stopContestant(contestant);
  }
}

/** Requests with the whole history, whose length no earlier request of the session has reached. */
async function* byTurns(counts: readonly number[]): AsyncGenerator<Row> {
  for (const turns of counts) {
    const far = startChild<FarCommands>(
      new URL('./context/server.ts', import.meta.url),
      ['1'],
      ['--expose-gc'],
    );
    try {
      const session = await askTwice(far, 'session', turns);
      const deflate = await askTwice(far, 'deflate', turns);
      const name = `request with ${turns} turns of ${Math.round(session.json / KB)} KB`;
      const row = (what: string, unit: string, key: 'bytes' | 'cpu' | 'busy') =>
        compare(`${name}, ${what}`, unit, 'lower', session[key], {
          name: 'permessage-deflate',
          value: deflate[key],
        });
      yield row('bytes', 'B', 'bytes');
      yield row('server', 'ms', 'cpu');
      yield row('client', 'ms', 'busy');
      yield compare(`${name}, memory of the server`, 'KB', 'lower', session.memory / KB, {
        name: 'JSON',
        value: session.json / KB,
      });
    } finally {
      far.stop();
    }
  }
}

/** Means of the measured requests. */
interface Asked {
  readonly bytes: number;
  /** Milliseconds of the server's CPU and of the client's. */
  readonly cpu: number;
  readonly busy: number;
  /** Bytes of heap and buffers that the session takes at the server, after garbage collection. */
  readonly memory: number;
  /** Bytes of the last request as JSON. */
  readonly json: number;
}

/** The second of two sessions: the first one pays for what a process compiles and allocates once. */
async function askTwice(far: Child<FarCommands>, kind: 'session' | 'deflate', turns: number): Promise<Asked> {
  const port = await far.call('port', kind);
  const open = (): Promise<Way> =>
    kind === 'session' ? openSession(port, { context: true }) : openDeflate(port, () => 1);
  const [first, second] = [await open(), await open()];
  try {
    await askGrowing(far, kind, first, turns);
    const before = await far.call('memory');
    const asked = await askGrowing(far, kind, second, turns);
    return { ...asked, memory: (await far.call('memory')) - before };
  } finally {
    await first.close();
    await second.close();
  }
}

async function askGrowing(
  far: Child<FarCommands>,
  kind: 'session' | 'deflate',
  way: Way,
  turns: number,
): Promise<Omit<Asked, 'memory'>> {
  const request = createGrowingHistory();
  // Every length that is asked for warms up the same code, and the last ones before the measured are its base.
  for (let turn = Math.max(1, turns - 2 * REQUESTS); turn <= turns - REQUESTS; turn++)
    await way.ask(request(turn));
  const [before, busy, cpu] = [await far.call('traffic', kind), process.cpuUsage(), await far.call('cpu')];
  let json = 0;
  for (let turn = turns - REQUESTS + 1; turn <= turns; turn++) {
    const text = request(turn);
    json = Buffer.byteLength(text);
    await way.ask(text);
  }
  const spent = process.cpuUsage(busy);
  const after = await far.call('cpu');
  const { read } = await far.call('traffic', kind);
  return {
    bytes: (read - before.read) / REQUESTS,
    cpu: (after - cpu) / 1_000 / REQUESTS,
    busy: (spent.user + spent.system) / 1_000 / REQUESTS,
    json,
  };
}
