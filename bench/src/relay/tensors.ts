import { type Child, startChild } from '../../../scripts/child-process.js';
import type { TransferCommands } from '../process/transfer.js';
import { atLeast, atMost, compare, type Row } from '../row.js';
import type { RelayName } from './relays.js';
import type { RelayServerCommands } from './server.js';

const MIB = 2 ** 20;
const MIN_RATE = 0.7;
const MAX_PEAK_MIB = 110;

interface Contestant {
  readonly relay: Child<RelayServerCommands>;
  readonly sender: Child<TransferCommands>;
  readonly receiver: Child<TransferCommands>;
}

interface Transfer {
  readonly ms: number;
  readonly cpuMs: number;
}

/**
 * A large tensor from agent to agent, against hand-written chunks over two hops with a CRC at both ends. The
 * two take turns, and the best of each counts: other work on the machine only makes transfers slower.
 */
export async function* measureTensors(size: number, rounds: number): AsyncGenerator<Row> {
  const session = await start('session');
  const ws = await start('ws');
  try {
    await Promise.all([session.relay.call('watch'), ws.relay.call('watch')]);
    const ours: Transfer[] = [];
    const theirs: Transfer[] = [];
    // The first transfer of each is for the JIT compiler.
    for (let round = 0; round <= rounds; round++) {
      const turns = [
        async () => ours.push(await transfer(session, size)),
        async () => theirs.push(await transfer(ws, size)),
      ];
      for (const turn of round % 2 === 0 ? turns : turns.toReversed()) await turn();
    }
    const name = `${size / MIB} MiB agent to agent`;
    yield* timeRows(name, size, ours.slice(1), theirs.slice(1));
    const peak = (await session.relay.call('peak')) / MIB;
    const limit = { name: `idle + ${MAX_PEAK_MIB} MiB`, value: MAX_PEAK_MIB };
    yield compare(`${name}, relay peak RSS`, 'MiB', 'lower', peak, limit, atMost(1));
  } finally {
    for (const { relay, sender, receiver } of [session, ws]) {
      sender.stop();
      receiver.stop();
      relay.stop();
    }
  }
}

async function start(name: RelayName): Promise<Contestant> {
  const relay = startChild<RelayServerCommands>(
    new URL('./server.ts', import.meta.url),
    [name],
    ['--expose-gc'],
  );
  const port = await relay.call('port');
  const connect = async (role: 'sender' | 'receiver') => {
    const system = name === 'session' ? 'agent' : 'ws';
    const end = startChild<TransferCommands>(
      new URL('../process/transfer.ts', import.meta.url),
      [system],
      ['--expose-gc'],
    );
    await end.call('connect', { port, role });
    return end;
  };
  return { relay, receiver: await connect('receiver'), sender: await connect('sender') };
}

async function transfer({ relay, sender }: Contestant, size: number): Promise<Transfer> {
  const before = await relay.call('mark');
  const ms = await sender.call('send', size);
  const after = await relay.call('mark');
  return { ms, cpuMs: (after.cpuUs - before.cpuUs) / 1000 };
}

function* timeRows(
  name: string,
  size: number,
  ours: readonly Transfer[],
  theirs: readonly Transfer[],
): Generator<Row> {
  const rate = (transfers: readonly Transfer[]) =>
    size / MIB / (Math.min(...transfers.map(({ ms }) => ms)) / 1000);
  const cpu = (transfers: readonly Transfer[]) => Math.min(...transfers.map(({ cpuMs }) => cpuMs));
  const byHand = (value: number) => ({ name: 'ws, chunks + CRC', value });
  yield compare(name, 'MiB/s', 'higher', rate(ours), byHand(rate(theirs)), atLeast(MIN_RATE));
  yield compare(`${name}, relay CPU`, 'ms', 'lower', cpu(ours), byHand(cpu(theirs)));
}
