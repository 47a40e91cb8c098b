import type { ContextEncoder, ContextOffer } from './encoder.js';
import { commonPrefix, NO_MATCH } from './similarity.js';

/**
 * Decides whether to send a message in context or in another codec. Against a similar base, context is
 * smaller than anything else. Without one it is somewhat larger than the best codec. It may still be worth
 * it, since only messages sent in context can become a base: an investment, made less and less often as long
 * as it does not pay.
 */

export interface ContextChoice {
  /** `undefined` if another codec is better. */
  readonly offer: ContextOffer | undefined;
  /**
   * `context`: the smallest; `investment`: so that later messages can refer to it; `other`: not in context.
   */
  readonly rule: 'context' | 'investment' | 'other';
  /** Bytes of the message in context, if it was coded. */
  readonly bytes: number | undefined;
}

export interface Candidate {
  /** Must not be changed any more. */
  readonly content: Uint8Array;
  readonly streamId: number;
  /** A part of a reply. */
  readonly isPart: boolean;
  /** The kind of frame; the chooser learns about each kind separately. */
  readonly kind: number;
  /** For binary content, context without a base always counts as an investment. */
  readonly isBinary: boolean;
}

/** A body smaller than its message by this factor needs no comparison. */
const CLEARLY_SMALLER = 5;
/** The most that an investment may cost: a factor and further bytes above the best other codec. */
const MAX_FACTOR = 1.5;
const MAX_MORE = 16;
/** Number of lost investments in a row before they become rarer. */
const FREE_TRIALS = 3;
/**
 * Bytes from which messages count as medium and large; and, for each size, after how many messages a trial is
 * due at the latest.
 */
const SIZES = [1024, 16 * 1024] as const;
const RAREST = [64, 32, 8] as const;
/** Bytes kept of the last message that was not sent in context, to notice a similar one. */
const HEAD_LENGTH = 1024;
const MIN_HEAD = 256;

/** The experience of the chooser with messages of one kind and size. */
interface Experience {
  /** Investments since the last one that paid. */
  misses: number;
  /** Messages since the last investment. */
  waited: number;
  head: Uint8Array | undefined;
  /** The last time, context without a base was no larger than the best other codec. */
  isFree: boolean;
}

export class ContextChooser {
  readonly #experiences = new Map<number, Experience>();

  /**
   * @param rival returns the size in the best other codec, or `undefined` if there is none. Called only if it
   * may matter; if the choice is `other`, the caller sends the body that was measured.
   */
  choose(encoder: ContextEncoder, candidate: Candidate, rival: () => number | undefined): ContextChoice {
    const { content, streamId, isPart, isBinary } = candidate;
    const experience = this.#experienceOf(candidate);
    const mayInvest = isDue(experience, content);
    const match = encoder.match(content, streamId, isPart, !mayInvest);
    const isWeak = (match.prefix + match.suffix) * 4 < content.length;
    const isWorthTrying = match.base !== undefined && (mayInvest || !isWeak);
    let offer = isWorthTrying ? encoder.code(content, match, isPart) : undefined;
    if (offer !== undefined && offer.bytes.length * CLEARLY_SMALLER <= content.length) {
      return won(experience, offer);
    }
    const size = rival();
    if (offer !== undefined && (size === undefined || offer.bytes.length <= size))
      return won(experience, offer);
    // Only what can be kept is an investment.
    const isInvested = mayInvest && encoder.state.mayKeep(content.length);
    if (size === undefined || isInvested || (experience.isFree && !isBinary)) {
      offer ??= encoder.code(content, NO_MATCH, isPart);
      const { length } = offer.bytes;
      experience.isFree = size === undefined || length <= size;
      if (!experience.isFree || isBinary) experience.misses++;
      experience.waited = 0;
      if (size === undefined || length <= size * MAX_FACTOR + MAX_MORE) {
        return { offer, rule: 'investment', bytes: length };
      }
    } else {
      experience.waited++;
    }
    experience.head = content.length < MIN_HEAD ? undefined : content.slice(0, HEAD_LENGTH);
    return { offer: undefined, rule: 'other', bytes: offer?.bytes.length };
  }

  #experienceOf({ content, kind }: Candidate): Experience {
    const key = kind * RAREST.length + sizeClass(content);
    let experience = this.#experiences.get(key);
    if (experience === undefined) {
      experience = { misses: 0, waited: 0, head: undefined, isFree: false };
      this.#experiences.set(key, experience);
    }
    return experience;
  }
}

function won(experience: Experience, offer: ContextOffer): ContextChoice {
  experience.misses = 0;
  experience.waited = 0;
  experience.head = undefined;
  return { offer, rule: 'context', bytes: offer.bytes.length };
}

/**
 * Whether an investment is due: recent ones have paid, the last one was long ago, or this message resembles
 * the last.
 */
function isDue({ misses, waited, head }: Experience, content: Uint8Array): boolean {
  if (misses < FREE_TRIALS) return true;
  if (waited >= Math.min(2 ** (misses - FREE_TRIALS + 1), RAREST[sizeClass(content)])) return true;
  return head !== undefined && commonPrefix(content, head) * 2 >= head.length;
}

function sizeClass({ length }: Uint8Array): 0 | 1 | 2 {
  return length < SIZES[0] ? 0 : length < SIZES[1] ? 1 : 2;
}
