import { costs } from './page/costs.js';
import { inspector } from './page/inspector.js';
import { reading } from './page/reading.js';
import { modules, weights } from './page/weight.js';
import type { BenchOptions, Row } from './row.js';

/**
 * The price that a browser page pays for its first message: the size of its scripts, what Chromium transfers, and time
 * on slow networks and processors. The same page with socket.io and with a bare WebSocket is measured in the same run.
 * Then how smoothly long answers appear, beside a page with `useChat`.
 */
export async function* run(options: BenchOptions): AsyncGenerator<Row> {
  if (options.modules) return yield* modules();
  if (options.reading) return yield* reading(options.quick);
  yield* weights();
  yield* costs(options.quick);
  yield* inspector(options.quick);
  yield* reading(options.quick);
}
