import { Algorithm } from '../../base/constants.js';
import { ProtocolError } from '../../base/errors.js';
import { classify } from './classify.js';
import { type Candidate, Contest, isLinear, type Selection, type SelectionRule } from './contest.js';
import { Memory } from './memory.js';

/**
 * Choosing the codec of a message (compression document, section 5.2): the smallest result wins, but
 * without trying everything every time. A selector belongs to one session; it learns which codec is
 * the smallest for which messages, and looks again now and then. It is deterministic: the same
 * messages in the same order are coded in the same way.
 */

export type { Candidate, Selection } from './contest.js';

export interface SelectorOptions {
  /** UTF-16 units from which on only one codec is run over the whole of a message. @default 65,536 */
  readonly trialLength?: number | undefined;
  /** Messages between two trials of another codec, once they change nothing. @default 64 */
  readonly maxInterval?: number | undefined;
  /** Kinds of messages that are remembered; the one unused for longest is forgotten. @default 64 */
  readonly maxKinds?: number | undefined;
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

/** The document's guess for content over 1 KB, and what comes closest to it. */
const FOR_LARGE = [Algorithm.BROTLI, Algorithm.M2M, Algorithm.TOKEN_NATIVE];
/** A result larger than expected by this factor is compared with others. */
const SURPRISE = 1.1;
/** A codec that is expected within this factor of the smallest is worth a regular trial. */
const CLOSE = 1.08;
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
  const linear = field.map(isLinear);
  const memories = new Map<string, Memory>();
  let trials = 0;

  /** What is known of a kind of message, which becomes the most recently used one. */
  function recall(kind: string): Memory {
    const known = memories.get(kind);
    if (known !== undefined) memories.delete(kind);
    else if (memories.size >= maxKinds) memories.delete(memories.keys().next().value as string);
    const memory = known ?? new Memory(linear, maxInterval);
    memories.set(kind, memory);
    return memory;
  }

  /** The first encounter with a kind of message: everything is looked at, or the document is believed. */
  function selectNew(contest: Contest, large: boolean): SelectionRule {
    if (large) {
      const guesses = FOR_LARGE.map((algorithm) => field.findIndex((other) => other.algorithm === algorithm));
      contest.run(guesses.find((index) => index !== -1) ?? 0);
    }
    for (const index of field.keys()) if (!large || linear[index]) contest.look(index);
    return large ? 'heuristic' : 'smallest';
  }

  /** Runs the favourite, and others as far as there is a reason to doubt it. */
  function selectKnown(
    contest: Contest,
    memory: Memory,
    size: number,
    favourite: number,
    large: boolean,
  ): void {
    const expected = memory.expected(favourite, size);
    const due = memory.due();
    const isOther = (index: number) => index !== favourite && (linear[index] === true || !large);
    // The close ones are found before this message changes what is expected.
    const close = due
      ? [...field.keys()].filter((index) => isOther(index) && memory.expected(index, size) < expected * CLOSE)
      : [];
    const actual = contest.run(favourite);
    const surprised = actual > expected * SURPRISE;
    for (let index = 0; index < field.length; index++) {
      if (!isOther(index)) continue;
      const promising = surprised && !(memory.expected(index, size) >= actual);
      if (promising || memory.leastUnseen(index, size) < actual) contest.look(index);
    }
    if (!due) return;
    for (const index of close) contest.look(index);
    if (trials++ % OUTSIDER_TURN === 0) {
      const others = [...field.keys()].filter(isOther);
      const outsider = others[Math.floor(trials / OUTSIDER_TURN) % others.length];
      if (outsider !== undefined) contest.look(outsider);
    }
    memory.settle(memory.favourite(size) !== favourite);
  }

  return {
    select(text, kind = '') {
      const { content, size } = classify(text);
      const memory = recall(`${kind} ${content}`);
      const contest = new Contest(field, text, (index, ratio) => memory.observe(index, size, ratio));
      if (field.length <= 1) return contest.finish('only');
      const large = text.length >= trialLength;
      const favourite = memory.favourite(size);
      if (favourite === -1) return contest.finish(selectNew(contest, large));
      selectKnown(contest, memory, size, favourite, large);
      return contest.finish('learned');
    },
  };
}
