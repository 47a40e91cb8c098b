import { atLeast, compare, type Row } from '../row.js';
import { median } from '../statistics.js';
import { type Contestant, closeConnections, openConnections } from './contestant.js';
import type { Placement } from './placement.js';
import type { Plan } from './plan.js';

/** The cost of a connection before any message: opening it, and keeping it open. */
interface Idle {
  /** Connections or sessions opened per second. */
  readonly handshakes: number;
  /** Microseconds of the server's CPU per connection. */
  readonly cpu: number;
  /** Kilobytes of heap that the server keeps per connection. */
  readonly heap: number;
}

/** Kilobytes by which the heap per idle session may exceed the heap per `ws` connection. */
const HEAP_MARGIN = 5;

export async function* measureIdle(
  contestants: readonly Contestant[],
  placement: Placement,
  plan: Plan,
): AsyncGenerator<Row> {
  const found = new Map<Contestant, Idle[]>(contestants.map((contestant) => [contestant, []]));
  // The first round is for the JIT compiler.
  for (let round = -1; round < plan.idleRounds; round++) {
    for (const contestant of round % 2 === 0 ? contestants : contestants.toReversed()) {
      const idle = await measureOnce(contestant, plan.idleConnections);
      if (round >= 0) found.get(contestant)?.push(idle);
    }
  }
  const figure = (contestant: Contestant, name: keyof Idle) =>
    median((found.get(contestant) ?? []).map((idle) => idle[name]));

  const find = (wanted: string) => contestants.find(({ name }) => name === wanted);
  const ws = find('ws');
  const socketIo = find('socket.io');
  if (ws === undefined) return;
  for (const contestant of contestants) {
    const { name } = contestant;
    const isSession = name === 'session';
    const row = (
      what: string,
      unit: string,
      better: Row['better'],
      key: keyof Idle,
      target?: TargetOf,
      beside = ws,
    ) => {
      const value = figure(contestant, key);
      const base = figure(beside, key);
      const held = { name: beside.name, value: base };
      return compare(`${what} ${name}, ${placement}`, unit, better, value, held, (ratio) =>
        isSession ? target?.(ratio, value - base) : undefined,
      );
    };
    yield row('handshake', '1/s', 'higher', 'handshakes', atLeast(0.6));
    if (isSession && socketIo !== undefined)
      yield row('handshake', '1/s', 'higher', 'handshakes', atLeast(1), socketIo);
    yield row('handshake', 'us', 'lower', 'cpu');
    yield row('idle heap', 'KB', 'lower', 'heap', (_ratio, difference) => ({
      text: `<= +${HEAP_MARGIN} KB`,
      met: difference <= HEAP_MARGIN,
    }));
  }
}

type TargetOf = (ratio: number, difference: number) => Row['target'];

async function measureOnce(contestant: Contestant, connections: number): Promise<Idle> {
  const { server } = contestant;
  const memory0 = await server.call('memory');
  const mark0 = await server.call('mark');
  const elapsedMs = await openConnections(contestant, {
    connections,
    size: 100,
    depth: 1,
    exchange: 'message',
  });
  const mark1 = await server.call('mark');
  const memory1 = await server.call('memory');
  await closeConnections(contestant);
  return {
    handshakes: (connections / elapsedMs) * 1000,
    cpu: (mark1.cpuUs - mark0.cpuUs) / connections,
    heap: (memory1.heapUsed - memory0.heapUsed) / 1024 / connections,
  };
}
