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
 * Tensors: single frames against JSON and against the minimal cost of moving their bytes, large tensors over
 * a session against a hand-written WebSocket protocol, other traffic beside a large tensor, and the cost of
 * lost connections and refusals.
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
