import { atMost, compare, type Row } from '../row.js';
import { DIRECTIONS, type Direction, type Pair, startEnd } from './pair.js';

const MAX_WAIT_MS = 50;

const PLACES = ['same connection', 'another connection'] as const;
type Place = (typeof PLACES)[number];

/**
 * Round trips of small messages on the connection that carries a tensor, and on another connection to the
 * same server. The hand-written baseline shows how much of the delay is due to the machine.
 */
export async function* measureWaiting(
  session: Pair,
  ws: Pair,
  size: number,
  rounds: number,
): AsyncGenerator<Row> {
  const ours = await waitsOf(session, size, rounds);
  const theirs = await waitsOf(ws, size, rounds);
  for (const place of PLACES) {
    const name = `round trip beside a tensor, ${place}, p99`;
    const wait = p99(ours[place]);
    const limit = { name: `${MAX_WAIT_MS} ms`, value: MAX_WAIT_MS };
    yield compare(name, 'ms', 'lower', wait, limit, atMost(1));
    yield compare(name, 'ms', 'lower', wait, { name: 'ws, chunks + CRC', value: p99(theirs[place]) });
  }
}

/** @returns milliseconds of each round trip. */
async function waitsOf(pair: Pair, size: number, rounds: number): Promise<Record<Place, number[]>> {
  const other = startEnd(pair.system);
  await other.call('connect', { port: pair.port });
  const clients: Record<Place, typeof other> = {
    'same connection': pair.client,
    'another connection': other,
  };
  const waits: Record<Place, number[]> = { 'same connection': [], 'another connection': [] };
  try {
    for (let round = 0; round < 2 * rounds; round++) {
      const { from } = DIRECTIONS[round % 2] as Direction;
      const sent = pair[from].call('send', size);
      for (let isOver = false; !isOver; ) {
        const measured = Promise.all(
          PLACES.map(async (place) => ({
            place,
            taken: await clients[place].call('pings', { forMs: 20, pauseMs: 2 }),
          })),
        );
        isOver = await Promise.race([sent.then(() => true), measured.then(() => false)]);
        // Drop what was measured after the tensor had arrived.
        for (const { place, taken } of isOver ? [] : await measured) waits[place].push(...taken);
        await measured;
      }
    }
  } finally {
    other.stop();
  }
  return waits;
}

function p99(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * 0.99)] ?? Number.NaN;
}
