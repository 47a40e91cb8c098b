import { atLeast, atMost, compare, type Row } from '../row.js';
import { DIRECTIONS, type Direction, type Pair } from './pair.js';

const MIB = 2 ** 20;
const MIN_RATE = 0.85;
const MAX_PEAK_MIB = 110;

/** The cost of one transfer. */
interface Transfer {
  readonly ms: number;
  readonly cpuMs: BothSides;
}

interface BothSides {
  readonly from: number;
  readonly to: number;
}

/**
 * A large tensor in either direction over a session, against a hand-written protocol. The two take turns, and
 * the best of each counts: other work on the machine makes transfers slower, never faster.
 */
export async function* measureTransfers(
  session: Pair,
  ws: Pair,
  size: number,
  rounds: number,
): AsyncGenerator<Row> {
  for (const direction of DIRECTIONS) {
    const pairs = [session, ws];
    const ours: Transfer[] = [];
    const theirs: Transfer[] = [];
    await Promise.all(pairs.flatMap(({ client, server }) => [client.call('watch'), server.call('watch')]));
    // The first transfer of each is for the JIT compiler.
    for (let round = 0; round <= rounds; round++) {
      const turns = [
        async () => ours.push(await transfer(session, direction, size)),
        async () => theirs.push(await transfer(ws, direction, size)),
      ];
      for (const turn of round % 2 === 0 ? turns : turns.toReversed()) await turn();
    }
    const name = `${size / MIB} MiB tensor ${direction.name}`;
    yield* timeRows(name, size, ours.slice(1), theirs.slice(1));
    yield* memoryRows(name, await peaksOf(session, direction), await peaksOf(ws, direction));
  }
}

async function transfer(pair: Pair, { from, to }: Direction, size: number): Promise<Transfer> {
  const marks = () => Promise.all([pair[from].call('mark'), pair[to].call('mark')]);
  const [from0, to0] = await marks();
  const ms = await pair[from].call('send', size);
  const [from1, to1] = await marks();
  return { ms, cpuMs: { from: from1.cpuMs - from0.cpuMs, to: to1.cpuMs - to0.cpuMs } };
}

/**
 * Peak memory over all transfers in one direction, beyond what each process held before its first transfer.
 */
async function peaksOf(pair: Pair, { from, to }: Direction): Promise<BothSides> {
  const [sender, receiver] = await Promise.all([pair[from].call('mark'), pair[to].call('mark')]);
  return { from: sender.peakBytes, to: receiver.peakBytes };
}

const SIDES = [
  { side: 'from', name: 'sender' },
  { side: 'to', name: 'receiver' },
] as const;
const byHand = (value: number) => ({ name: 'ws, chunks + CRC', value });

function* timeRows(
  name: string,
  size: number,
  ours: readonly Transfer[],
  theirs: readonly Transfer[],
): Generator<Row> {
  const rate = (transfers: readonly Transfer[]) =>
    size / MIB / (Math.min(...transfers.map(({ ms }) => ms)) / 1000);
  yield compare(name, 'MiB/s', 'higher', rate(ours), byHand(rate(theirs)), atLeast(MIN_RATE));
  for (const { side, name: end } of SIDES) {
    const cpu = (transfers: readonly Transfer[]) => Math.min(...transfers.map(({ cpuMs }) => cpuMs[side]));
    yield compare(`${name}, ${end} CPU`, 'ms', 'lower', cpu(ours), byHand(cpu(theirs)));
  }
}

function* memoryRows(name: string, ours: BothSides, theirs: BothSides): Generator<Row> {
  const limit = { name: `idle + ${MAX_PEAK_MIB} MiB`, value: MAX_PEAK_MIB };
  for (const { side, name: end } of SIDES) {
    const rss = `${name}, ${end} peak RSS`;
    yield compare(rss, 'MiB', 'lower', ours[side] / MIB, limit, atMost(1));
    yield compare(rss, 'MiB', 'lower', ours[side] / MIB, byHand(theirs[side] / MIB));
  }
}
