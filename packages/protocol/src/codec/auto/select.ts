import { Algorithm } from '../../base/constants.js';
import { ProtocolError } from '../../base/errors.js';
import { classify } from './classify.js';
import { type Candidate, CodecTrial, isLinear, type Selection, type SelectionRule } from './codec-trial.js';
import { Memory } from './memory.js';

/**
 * Chooses the codec of a message (compression document, section 5.2). The smallest result wins, but not every
 * codec is tried every time: a selector belongs to one session, learns which codec is the smallest for which
 * messages, and checks that now and then. It is deterministic: the same messages in the same order are coded
 * in the same way.
 */

export type { Candidate, Selection } from './codec-trial.js';

export interface SelectorOptions {
  /** UTF-16 units from which only one codec runs over a whole message. @default 65,536 */
  readonly trialLength?: number | undefined;
  /** Most messages between two trials of another codec. @default 64 */
  readonly maxInterval?: number | undefined;
  /** Kinds of messages to remember; the least recently used one is forgotten. @default 64 */
  readonly maxKinds?: number | undefined;
}

export interface Selector {
  /**
   * Codes `text` with the codec that is, or is expected to be, the smallest.
   *
   * @param kind the caller's name for the kind of message, such as `request`; each is learned separately.
   * @throws {ProtocolError} `unrepresentable` if no candidate can carry `text`.
   */
  select(text: string, kind?: string): Selection;
}

/** The document's recommendation for content over 1 KB, and its closest replacements. */
const FOR_LARGE = [Algorithm.BROTLI, Algorithm.M2M, Algorithm.TOKEN_NATIVE];
/** A result larger than expected by this factor is compared with others. */
const SURPRISE = 1.1;
/** A codec expected within this factor of the smallest gets regular trials. */
const CLOSE = 1.08;
/** One in so many regular trials also includes a codec that is not close. */
const OUTSIDER_TURN = 4;

/**
 * @param codecs the negotiated codecs that decode exactly. The first of equal results wins; without
 * codecs, `select` always throws.
 * @throws {ProtocolError} `invalid_argument` if a codec is given twice.
 */
export function createSelector(codecs: readonly Candidate[], options: SelectorOptions = {}): Selector {
  const { trialLength = 65_536, maxInterval = 64, maxKinds = 64 } = options;
  const algorithms = new Set(codecs.map(({ algorithm }) => algorithm));
  if (algorithms.size !== codecs.length) {
    throw new ProtocolError('invalid_argument', 'each codec may be given only once');
  }
  // An M2M body is a header and Brotli, so it is never smaller than Brotli alone.
  const candidates = codecs.filter(
    ({ algorithm }) => algorithm !== Algorithm.M2M || !algorithms.has(Algorithm.BROTLI),
  );
  const linear = candidates.map(isLinear);
  const memories = new Map<string, Memory>();
  let trials = 0;

  /** The memory of a kind of message, which becomes the most recently used one. */
  function recall(kind: string): Memory {
    const known = memories.get(kind);
    if (known !== undefined) memories.delete(kind);
    else if (memories.size >= maxKinds) memories.delete(memories.keys().next().value as string);
    const memory = known ?? new Memory(linear, maxInterval);
    memories.set(kind, memory);
    return memory;
  }

  /** For the first message of a kind: tries everything, or follows the document if the message is large. */
  function selectNew(trial: CodecTrial, large: boolean): SelectionRule {
    if (large) {
      const guesses = FOR_LARGE.map((algorithm) =>
        candidates.findIndex((other) => other.algorithm === algorithm),
      );
      trial.run(guesses.find((index) => index !== -1) ?? 0);
    }
    for (const index of candidates.keys()) if (!large || linear[index]) trial.look(index);
    return large ? 'heuristic' : 'smallest';
  }

  /** Runs the favourite, and others if there is reason to doubt it. */
  function selectKnown(
    trial: CodecTrial,
    memory: Memory,
    size: number,
    favourite: number,
    large: boolean,
  ): void {
    const expected = memory.expected(favourite, size);
    const due = memory.due();
    const isOther = (index: number) => index !== favourite && (linear[index] === true || !large);
    // Determined before this message changes the expectations.
    const close = due
      ? [...candidates.keys()].filter(
          (index) => isOther(index) && memory.expected(index, size) < expected * CLOSE,
        )
      : [];
    const actual = trial.run(favourite);
    const surprised = actual > expected * SURPRISE;
    for (let index = 0; index < candidates.length; index++) {
      if (!isOther(index)) continue;
      const promising = surprised && !(memory.expected(index, size) >= actual);
      if (promising || memory.leastUnseen(index, size) < actual) trial.look(index);
    }
    if (!due) return;
    for (const index of close) trial.look(index);
    if (trials++ % OUTSIDER_TURN === 0) {
      const others = [...candidates.keys()].filter(isOther);
      const outsider = others[Math.floor(trials / OUTSIDER_TURN) % others.length];
      if (outsider !== undefined) trial.look(outsider);
    }
    memory.handleTrial(memory.favourite(size) !== favourite);
  }

  return {
    select(text, kind = '') {
      const { content, size } = classify(text);
      const memory = recall(`${kind} ${content}`);
      const trial = new CodecTrial(candidates, text, (index, ratio) => memory.observe(index, size, ratio));
      if (candidates.length <= 1) return trial.finish('only');
      const large = text.length >= trialLength;
      const favourite = memory.favourite(size);
      if (favourite === -1) return trial.finish(selectNew(trial, large));
      selectKnown(trial, memory, size, favourite, large);
      return trial.finish('learned');
    },
  };
}
