import { atMost, compare, type Row } from '../row.js';
import type { Traffic } from './messages.js';
import { createSessionCoder } from './methods.js';
import { Algorithm, type Encoding, isProtocolError } from './subject.js';
import { timeInTurns } from './timing.js';

/**
 * The choice of `auto` against trying every codec on every message: how many bytes more, how much time less.
 * A session learns as it goes, so each pass starts with new sessions and includes the learning.
 */

const MAX_BYTES = 1.02;
const MAX_TIME = 1 / 3;

const EVERYTHING = [
  Algorithm.M2M,
  Algorithm.TOKEN_NATIVE,
  Algorithm.BROTLI,
  Algorithm.DICTIONARY,
  Algorithm.NONE,
] as const;
/** M2M is Brotli plus a header and so never the smallest; a caller who knows that leaves it out. */
const WITHOUT_M2M = EVERYTHING.filter((algorithm) => algorithm !== Algorithm.M2M);

const WAYS = {
  auto: passAuto,
  'trying all': (encoding: Encoding, texts: readonly string[]) => passAll(encoding, texts, EVERYTHING),
  'all but M2M': (encoding: Encoding, texts: readonly string[]) => passAll(encoding, texts, WITHOUT_M2M),
} as const;
type Way = keyof typeof WAYS;

/** The result of one way of choosing, over some texts. */
interface Outcome {
  bytes: number;
  us: number;
}

export function* measureAuto(encoding: Encoding, traffic: Traffic, rounds: number): Generator<Row> {
  const tasks = new Map<string, () => void>();
  const outcomes: { texts: readonly string[]; label: string; ways: Record<Way, Outcome> }[] = [];
  for (const [label, texts] of Object.entries(traffic) as [string, readonly string[]][]) {
    const ways = {} as Record<Way, Outcome>;
    for (const way of Object.keys(WAYS) as Way[]) {
      ways[way] = { bytes: WAYS[way](encoding, texts), us: Number.NaN };
      tasks.set(`${label} ${way}`, () => WAYS[way](encoding, texts));
    }
    outcomes.push({ label, texts, ways });
  }
  const times = timeInTurns(tasks, rounds);
  for (const { label, texts, ways } of outcomes) {
    for (const way of Object.keys(WAYS) as Way[]) ways[way].us = times.get(`${label} ${way}`) ?? Number.NaN;
    yield* autoRows(label, texts.length, ways);
  }
  const total = {} as Record<Way, Outcome>;
  for (const way of Object.keys(WAYS) as Way[]) {
    const sum = (key: keyof Outcome) => outcomes.reduce((all, { ways }) => all + ways[way][key], 0);
    total[way] = { bytes: sum('bytes'), us: sum('us') };
  }
  yield* autoRows(
    'chat',
    outcomes.reduce((all, { texts }) => all + texts.length, 0),
    total,
  );
}

/** Averages per message. */
function* autoRows(label: string, count: number, ways: Record<Way, Outcome>): Generator<Row> {
  const held = (way: Way, key: keyof Outcome) => ({
    name: key === 'bytes' ? 'smallest of all' : way,
    value: ways[way][key] / count,
  });
  const name = `auto ${label}`;
  const { bytes, us } = ways.auto;
  yield compare(name, 'B', 'lower', bytes / count, held('trying all', 'bytes'), atMost(MAX_BYTES));
  yield compare(name, 'us', 'lower', us / count, held('trying all', 'us'), (ratio) => ({
    text: '<= 1/3',
    met: ratio <= MAX_TIME,
  }));
  yield compare(name, 'us', 'lower', us / count, held('all but M2M', 'us'));
}

function passAuto(encoding: Encoding, texts: readonly string[]): number {
  const coder = createSessionCoder(encoding);
  let bytes = 0;
  for (const text of texts) bytes += coder.encode(text, {}).bytes.length;
  return bytes;
}

function passAll(encoding: Encoding, texts: readonly string[], algorithms: readonly Algorithm[]): number {
  const coder = createSessionCoder(encoding);
  let bytes = 0;
  for (const text of texts) {
    let least = Infinity;
    for (const algorithm of algorithms) {
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
