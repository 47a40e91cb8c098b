import { type Remote, startRemote } from '../process/channel.js';
import type { TransferCommands } from '../process/transfer.js';
import { atLeast, atMost, compare, type Row } from '../row.js';
import { median } from '../statistics.js';
import type { TransferSystemName } from './ends.js';

const MIB = 2 ** 20;
const MIN_RATE = 0.85;
const MAX_PEAK_MIB = 110;
const MAX_WAIT_MS = 50;

/** Both ends of one connection, each in a process of its own. */
interface Pair {
  readonly client: Remote<TransferCommands>;
  readonly server: Remote<TransferCommands>;
  readonly port: number;
}

const DIRECTIONS = [
  { name: 'client to server', from: 'client', to: 'server' },
  { name: 'server to client', from: 'server', to: 'client' },
] as const;
type Direction = (typeof DIRECTIONS)[number];

/** What one transfer took. */
interface Transfer {
  readonly ms: number;
  readonly cpuMs: { readonly from: number; readonly to: number };
  readonly peakBytes: { readonly from: number; readonly to: number };
}

/** A large tensor in either direction, beside the same by hand; then what waits beside one. */
export async function* measureTransfers(size: number, rounds: number): AsyncGenerator<Row> {
  const session = await startPair('session');
  const ws = await startPair('ws');
  try {
    for (const direction of DIRECTIONS) {
      const ours: Transfer[] = [];
      const theirs: Transfer[] = [];
      // The first of each is for the compiler.
      for (let round = 0; round <= rounds; round++) {
        const turns = [
          async () => ours.push(await transfer(session, direction, size)),
          async () => theirs.push(await transfer(ws, direction, size)),
        ];
        for (const turn of round % 2 === 0 ? turns : turns.toReversed()) await turn();
      }
      yield* transferRows(direction, size, ours.slice(1), theirs.slice(1));
    }
    if (process.env.W) yield* measureWaiting(session, size, rounds);
  } finally {
    for (const { client, server } of [session, ws]) {
      client.stop();
      server.stop();
    }
  }
}

async function startPair(name: TransferSystemName): Promise<Pair> {
  const [client, server] = [startEnd(name), startEnd(name)];
  const port = await server.call('serve');
  await client.call('connect', port);
  return { client, server, port };
}

function startEnd(name: TransferSystemName): Remote<TransferCommands> {
  return startRemote(new URL('../process/transfer.ts', import.meta.url), [name], ['--expose-gc']);
}

async function transfer(pair: Pair, { from, to }: Direction, size: number): Promise<Transfer> {
  const marks = () => Promise.all([pair[from].call('mark'), pair[to].call('mark')]);
  await Promise.all([pair[from].call('watch'), pair[to].call('watch')]);
  const [from0, to0] = await marks();
  const ms = await pair[from].call('send', size);
  const [from1, to1] = await marks();
  return {
    ms,
    cpuMs: { from: from1.cpuMs - from0.cpuMs, to: to1.cpuMs - to0.cpuMs },
    peakBytes: { from: from1.peakBytes, to: to1.peakBytes },
  };
}

function* transferRows(
  direction: Direction,
  size: number,
  ours: readonly Transfer[],
  theirs: readonly Transfer[],
): Generator<Row> {
  const name = `${size / MIB} MiB ${direction.name}`;
  const rate = (transfers: readonly Transfer[]) =>
    size / MIB / (median(transfers.map(({ ms }) => ms)) / 1000);
  yield compare(name, 'MiB/s', 'higher', rate(ours), { name: 'ws', value: rate(theirs) }, atLeast(MIN_RATE));
  for (const side of ['from', 'to'] as const) {
    const end = direction[side];
    const cpu = (transfers: readonly Transfer[]) => median(transfers.map(({ cpuMs }) => cpuMs[side]));
    yield compare(`${name}, CPU of the ${end}`, 'ms', 'lower', cpu(ours), { name: 'ws', value: cpu(theirs) });
    const peak = Math.max(...ours.map(({ peakBytes }) => peakBytes[side])) / MIB;
    const limit = { name: `${MAX_PEAK_MIB} MiB`, value: MAX_PEAK_MIB };
    yield compare(`${name}, peak RSS of the ${end}`, 'MiB', 'lower', peak, limit, atMost(1));
  }
}

/** Small messages of the same session, and of another one of the same server, while a tensor passes. */
async function* measureWaiting(pair: Pair, size: number, rounds: number): AsyncGenerator<Row> {
  const other = startEnd('session');
  await other.call('connect', pair.port);
  const sessions = { 'same session': pair.client, 'another session': other } as const;
  const waits = { 'same session': [] as number[], 'another session': [] as number[] };
  try {
    for (let round = 0; round < 2 * rounds; round++) {
      const { from } = DIRECTIONS[round % 2] as Direction;
      const sent = pair[from].call('send', size);
      for (let isOver = false; !isOver; ) {
        const measured = Promise.all(
          Object.entries(sessions).map(async ([name, session]) => {
            const taken = await session.call('pings', { forMs: 20, pauseMs: 2 });
            return { name: name as keyof typeof waits, taken };
          }),
        );
        isOver = await Promise.race([sent.then(() => true), measured.then(() => false)]);
        // What was measured when the tensor had arrived was measured beside nothing.
        for (const { name, taken } of isOver ? [] : await measured) waits[name].push(...taken);
        await measured;
      }
    }
  } finally {
    other.stop();
  }
  for (const [name, taken] of Object.entries(waits)) {
    const limit = { name: `${MAX_WAIT_MS} ms`, value: MAX_WAIT_MS };
    const p99 = taken.toSorted((a, b) => a - b)[Math.floor(taken.length * 0.99)] ?? Number.NaN;
    yield compare(`request beside a tensor, ${name}, p99`, 'ms', 'lower', p99, limit, atMost(1));
  }
}
