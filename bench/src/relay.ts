import { measureMessages } from './relay/messages.js';
import { measureStalled } from './relay/stalled.js';
import { measureTensors } from './relay/tensors.js';
import type { BenchOptions, Row } from './row.js';

const MIB = 2 ** 20;

/**
 * Agent to agent through a session server, against a hand-written relay on `ws`: messages, a large tensor,
 * and the effect of one stalled receiver on the others. Trust ratios and CPU, not rates.
 */
export async function* run({ quick }: BenchOptions): AsyncGenerator<Row> {
  yield* measureMessages({
    rounds: quick ? 3 : 9,
    windowMs: quick ? 1000 : 1500,
    count: quick ? 200 : 500,
  });
  yield* measureTensors((quick ? 64 : 256) * MIB, quick ? 2 : 7);
  yield* measureStalled(quick ? 3 : 9, quick ? 500 : 1000);
}
