import { atMost, compare, type Row } from '../row.js';
import type { Traffic } from './messages.js';
import { createSessionCoder } from './methods.js';
import { Algorithm, type Encoding, isProtocolError } from './subject.js';
import { timeInTurns } from './timing.js';

/**
 * The choice of `auto` beside trying every codec on every message: how many bytes more, how much time
 * less. A session learns as it goes, so each pass begins with new sessions and includes the learning.
 */

/** Not M2M, which is Brotli with a header in front and so never the smallest: trying it would be waste. */
const TRIED = [Algorithm.TOKEN_NATIVE, Algorithm.BROTLI, Algorithm.DICTIONARY, Algorithm.NONE] as const;

const MAX_BYTES = 1.02;
const MAX_TIME = 1 / 3;

export function* measureAuto(encoding: Encoding, traffic: Traffic, rounds: number): Generator<Row> {
  const parts = { requests: traffic.requests, replies: traffic.replies };
  const tasks = new Map<string, () => void>();
  const sizes = new Map<string, number>();
  for (const [name, texts] of Object.entries(parts)) {
    for (const [way, pass] of Object.entries({ auto: passAuto, all: passAll })) {
      tasks.set(`${way} ${name}`, () => pass(encoding, texts));
      sizes.set(`${way} ${name}`, pass(encoding, texts));
    }
  }
  const times = timeInTurns(tasks, rounds);
  const of = (figures: ReadonlyMap<string, number>, way: string, names: readonly string[]) =>
    names.reduce((sum, name) => sum + (figures.get(`${way} ${name}`) ?? Number.NaN), 0);

  const names = Object.keys(parts);
  for (const [label, chosen] of [...names.map((name) => [name, [name]] as const), ['chat', names] as const]) {
    const count = chosen.reduce((sum, name) => sum + parts[name as keyof typeof parts].length, 0);
    const figure = (figures: ReadonlyMap<string, number>, way: string) => of(figures, way, chosen) / count;
    const smallest = { name: 'smallest of all', value: figure(sizes, 'all') };
    yield compare(`auto ${label}, each`, 'B', 'lower', figure(sizes, 'auto'), smallest, atMost(MAX_BYTES));
    const trying = { name: 'trying all', value: figure(times, 'all') };
    yield compare(`auto ${label}, each`, 'us', 'lower', figure(times, 'auto'), trying, (ratio) => ({
      text: '<= 1/3',
      met: ratio <= MAX_TIME,
    }));
  }
}

function passAuto(encoding: Encoding, texts: readonly string[]): number {
  const coder = createSessionCoder(encoding);
  let bytes = 0;
  for (const text of texts) bytes += coder.encode(text, {}).bytes.length;
  return bytes;
}

function passAll(encoding: Encoding, texts: readonly string[]): number {
  const coder = createSessionCoder(encoding);
  let bytes = 0;
  for (const text of texts) {
    let least = Infinity;
    for (const algorithm of TRIED) {
      try {
        least = Math.min(least, coder.encode(text, { algorithm }).bytes.length);
      } catch (error) {
        if (!isProtocolError(error)) throw error;
      }
    }
    bytes += least;
  }
  return bytes;
}
