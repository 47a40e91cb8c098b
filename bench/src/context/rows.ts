import { atMost, compare, type Row } from '../row.js';
import type { History } from './histories.js';
import { platform } from './subject.js';

/** The most microseconds that one request may keep its sender busy. */
const MAX_BUSY_US = 500;

export function busyRow(what: string, value: number, brotli: number): Row {
  return compare(
    `sending a request, ${what}, p50`,
    'us',
    'lower',
    value,
    { name: 'brotli q5', value: brotli },
    () => ({
      text: `<= ${MAX_BUSY_US} us`,
      met: value <= MAX_BUSY_US,
    }),
  );
}

/**
 * Rows for the bytes of a history, against JSON and against the minimum, which is the last request sent once.
 */
export function* sizes(
  name: string,
  bytes: number,
  json: number,
  history: History,
  isGiven: boolean,
): Generator<Row> {
  const isWindow = history.factor < 48;
  const aim = isGiven || isWindow ? () => atFewer(json / bytes, history.factor) : undefined;
  yield compare(name, 'B', 'lower', bytes, { name: 'json', value: json }, aim);
  if (isWindow) return;
  const last = history.requests.slice(-history.conversations);
  const once = last.reduce((sum, text) => sum + platform.zstdCompress(Buffer.from(text), 3).length, 0);
  const bound = 1.1 * once + 64 * history.requests.length;
  yield compare(name, 'B', 'lower', bytes, { name: '1.1 zstd + 64 B', value: bound }, atMost(1));
}

const atFewer = (factor: number, aim: number) => ({ text: `>= ${aim} x fewer`, met: factor >= aim });
