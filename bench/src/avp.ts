import { measureAborts } from './avp/aborts.js';
import { measureCuts } from './avp/cuts.js';
import { measureFrames } from './avp/frames.js';
import { startPair } from './avp/pair.js';
import { measureRefusals } from './avp/refusals.js';
import { measureTransfers } from './avp/transfers.js';
import { measureWaiting } from './avp/waiting.js';
import type { BenchOptions, Row } from './row.js';

const MIB = 2 ** 20;

/**
 * Tensors: single frames beside JSON and beside what moving their bytes costs at least, large ones over a
 * session beside a WebSocket used by hand, what waits beside them, what a lost connection costs, and what
 * refusing costs.
 */
export async function* run({ quick }: BenchOptions): AsyncGenerator<Row> {
  const size = (quick ? 64 : 256) * MIB;
  yield* measureFrames(quick ? 9 : 41);
  yield* measureRefusals(quick ? 3 : 9);
  yield* measureAborts(quick ? 3 : 9);
  const session = await startPair('session');
  const ws = await startPair('ws');
  try {
    yield* measureTransfers(session, ws, size, quick ? 2 : 9);
    yield* measureWaiting(session, ws, size, quick ? 2 : 7);
  } finally {
    session.stop();
    ws.stop();
  }
  yield* measureCuts(size);
}
