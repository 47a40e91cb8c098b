import { Algorithm } from '../constants.js';
import { ProtocolError } from '../errors.js';
import { classify } from './select-class.js';
import { createMemory, type Memory } from './select-memory.js';

/**
 * Choosing the codec of a message (compression document, section 5.2): the smallest result wins, but
 * without trying everything every time. A selector belongs to one session; it learns which codec is
 * the smallest for which messages, and looks again now and then. It is deterministic: the same
 * messages in the same order are coded in the same way.
 */

/** A codec that a selector may choose. */
export interface Candidate {
  readonly algorithm: Algorithm;
  /** The coded body, or undefined where this codec cannot carry `text`; also called with parts of messages. */
  encode(text: string): Uint8Array | undefined;
  /** A promise: what comes out of the decoder is what went in, byte for byte. T1 cannot give it. */
  readonly decodeIsExact: true;
}

export interface SelectorOptions {
  /** UTF-16 units from which on only one codec is run over the whole of a message. @default 65,536 */
  readonly trialLength?: number | undefined;
  /** Messages between two trials of another codec, once they change nothing. @default 64 */
  readonly maxInterval?: number | undefined;
  /** Kinds of messages that are remembered; the one unused for longest is forgotten. @default 64 */
  readonly maxKinds?: number | undefined;
}

/** What one codec made of a message. */
export interface Trial {
  readonly algorithm: Algorithm;
  /** Size of the body; undefined where the codec cannot carry the text. */
  readonly bytes: number | undefined;
  /** Whether that is an estimate from a part of the text. */
  readonly estimated: boolean;
}

/**
 * Why a codec was chosen. `only`: there is no other; `smallest`: it was compared with others just now;
 * `learned`: it is known to be the smallest for such messages; `heuristic`: such messages are new and
 * this one is too large for a comparison.
 */
export type SelectionRule = 'only' | 'smallest' | 'learned' | 'heuristic';

export interface Selection {
  readonly algorithm: Algorithm;
  readonly body: Uint8Array;
  readonly reason: { readonly rule: SelectionRule; readonly tried: readonly Trial[] };
}

export interface Selector {
  /**
   * Codes `text` with what is, or is expected to be, the smallest.
   *
   * @param kind what the caller knows of a message, such as `request` or `chunk`: each is learned apart.
   * @throws {ProtocolError} `unrepresentable` where no candidate can carry `text`.
   */
  select(text: string, kind?: string): Selection;
}

/** Codecs whose output grows in proportion to their input, so that a part tells about the whole. */
const LINEAR: ReadonlySet<Algorithm> = new Set([
  Algorithm.TOKEN_NATIVE,
  Algorithm.DICTIONARY,
  Algorithm.NONE,
]);
/** UTF-16 units of such a part, and of a text from which on it is worth taking one. */
const SAMPLE_LENGTH = 512;
const SAMPLED_FROM = 2048;
/** The document's guess for content over 1 KB, and what comes closest to it. */
const FOR_LARGE = [Algorithm.BROTLI, Algorithm.M2M, Algorithm.TOKEN_NATIVE];
/** A result larger than expected by this factor is compared with others. */
const SURPRISE = 1.1;
/** A codec that is expected within this factor of the smallest is worth a regular trial. */
const CLOSE = 1.12;
/** Every so many regular trials one codec is tried that is not close. */
const OUTSIDER_TURN = 4;

/**
 * @param candidates the negotiated codecs that decode exactly; of equal results the first wins. Without
 * any, `select` always throws.
 * @throws {ProtocolError} `invalid_argument` where a codec is given twice.
 */
export function createSelector(candidates: readonly Candidate[], options: SelectorOptions = {}): Selector {
  const { trialLength = 65_536, maxInterval = 64, maxKinds = 64 } = options;
  const algorithms = new Set(candidates.map(({ algorithm }) => algorithm));
  if (algorithms.size !== candidates.length) {
    throw new ProtocolError('invalid_argument', 'a selector takes each codec once');
  }
  // An M2M body is Brotli with a header in front: where both are at hand it is never the smaller one.
  const field = candidates.filter(
    ({ algorithm }) => algorithm !== Algorithm.M2M || !algorithms.has(Algorithm.BROTLI),
  );
  const linear = field.map(({ algorithm }) => LINEAR.has(algorithm));
  const memories = new Map<string, Memory>();
  let trials = 0;

  /** What is known of a kind of message, which becomes the most recently used one. */
  function recall(kind: string): Memory {
    const memory = memories.get(kind) ?? createMemory(linear, maxInterval);
    memories.delete(kind);
    const [oldest] = memories.keys();
    if (oldest !== undefined && memories.size >= maxKinds) memories.delete(oldest);
    memories.set(kind, memory);
    return memory;
  }

  /** The first encounter with a kind of message: everything is looked at, or the document is believed. */
  function selectNew(contest: Contest, large: boolean): SelectionRule {
    if (!large) {
      for (const index of field.keys()) contest.look(index);
      return 'smallest';
    }
    const guesses = FOR_LARGE.map((algorithm) => field.findIndex((other) => other.algorithm === algorithm));
    contest.run(guesses.find((index) => index !== -1) ?? 0);
    for (const index of field.keys()) if (linear[index]) contest.look(index);
    return 'heuristic';
  }

  /** Runs the favourite, and others as far as there is a reason to doubt it. */
  function selectKnown(
    contest: Contest,
    memory: Memory,
    size: number,
    favourite: number,
    large: boolean,
  ): void {
    const expected = memory.expected(size);
    const others = [...field.keys()].filter((index) => index !== favourite && (linear[index] || !large));
    const actual = contest.run(favourite);
    if (actual > expected[favourite]! * SURPRISE) {
      for (const index of others) if ((expected[index] ?? 0) < actual) contest.look(index);
    }
    for (const index of others) if (memory.leastUnseen(index, size) < actual) contest.look(index);
    if (!memory.due()) return;
    for (const index of others) {
      if (expected[index]! < expected[favourite]! * CLOSE) contest.look(index);
    }
    const outsider = others[Math.floor(trials / OUTSIDER_TURN) % others.length];
    if (trials++ % OUTSIDER_TURN === 0 && outsider !== undefined) contest.look(outsider);
    memory.settle(leastOf(memory.expected(size)) !== favourite);
  }

  return {
    select(text, kind = '') {
      const { content, size } = classify(text);
      const memory = recall(`${kind} ${content}`);
      const contest = createContest(field, linear, text, (index, ratio) =>
        memory.observe(index, size, ratio),
      );
      const large = text.length >= trialLength;
      const favourite = leastOf(memory.expected(size));
      if (field.length <= 1) return contest.finish('only');
      if (favourite === undefined) return contest.finish(selectNew(contest, large));
      selectKnown(contest, memory, size, favourite, large);
      return contest.finish('learned');
    },
  };
}

/** The candidates' results for one text, each run at most once. All ratios are bytes per UTF-16 unit. */
interface Contest {
  /** Codes the text. Returns the ratio, Infinity where it cannot be coded. */
  run(index: number): number;
  /** Codes the text, or a part where that tells enough. */
  look(index: number): void;
  /**
   * The smallest of all that were looked at.
   *
   * @param rule what to report where there was no comparison.
   */
  finish(rule: SelectionRule): Selection;
}

function createContest(
  field: readonly Candidate[],
  linear: readonly boolean[],
  text: string,
  observe: (index: number, ratio: number) => void,
): Contest {
  const bodies = new Map<number, Uint8Array | undefined>();
  const ratios = new Map<number, number>();

  function measure(index: number, body: Uint8Array | undefined, length: number): number {
    const ratio = body === undefined ? Infinity : body.length / Math.max(length, 1);
    ratios.set(index, ratio);
    observe(index, ratio);
    return ratio;
  }

  function run(index: number): number {
    if (bodies.has(index)) return ratios.get(index) as number;
    const body = field[index]!.encode(text);
    bodies.set(index, body);
    return measure(index, body, text.length);
  }

  function look(index: number): void {
    if (ratios.has(index)) return;
    if (!linear[index] || text.length < SAMPLED_FROM) {
      run(index);
      return;
    }
    const sample = sampleOf(text);
    measure(index, field[index]!.encode(sample), sample.length);
  }

  function best(): number | undefined {
    return leastOf([...field.keys()].map((index) => ratios.get(index)));
  }

  return {
    run,
    look,
    finish(rule) {
      // Whoever looks best has to prove it; if nobody could carry the text so far, the rest is tried.
      let winner = best();
      while (winner === undefined ? ratios.size < field.length : !bodies.has(winner)) {
        if (winner === undefined) for (const index of field.keys()) look(index);
        else run(winner);
        winner = best();
      }
      const body = winner === undefined ? undefined : bodies.get(winner);
      if (winner === undefined || body === undefined) {
        throw new ProtocolError('unrepresentable', 'none of the negotiated codecs can carry this text');
      }
      const tried = [...ratios].map(([index, ratio]) => ({
        algorithm: field[index]!.algorithm,
        bytes: ratio === Infinity ? undefined : Math.round(ratio * text.length),
        estimated: !bodies.has(index),
      }));
      const compared = rule === 'learned' && tried.length > 1;
      return {
        algorithm: field[winner]!.algorithm,
        body,
        reason: { rule: compared ? 'smallest' : rule, tried },
      };
    },
  };
}

/** A part from the middle that cuts no surrogate pair. */
function sampleOf(text: string): string {
  let start = Math.floor((text.length - SAMPLE_LENGTH) / 2);
  let end = start + SAMPLE_LENGTH;
  if (isLowSurrogate(text.charCodeAt(start))) start++;
  if (isLowSurrogate(text.charCodeAt(end))) end++;
  return text.slice(start, end);
}

function isLowSurrogate(unit: number): boolean {
  return unit >= 0xdc00 && unit <= 0xdfff;
}

/** The index of the least finite value, the first of equal ones. */
function leastOf(values: readonly (number | undefined)[]): number | undefined {
  let least: number | undefined;
  for (const [index, value = Infinity] of values.entries()) {
    if (value < (least === undefined ? Infinity : values[least]!)) least = index;
  }
  return least;
}
