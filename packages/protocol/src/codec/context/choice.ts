import { commonPrefix } from './cut.js';
import type { ContextEncoder, ContextOffer } from './encoder.js';
import { NO_MATCH } from './similarity.js';

/**
 * Whether a message goes out in context or in a codec of its own. Against a base that it resembles,
 * context is smaller than anything else. Without one it is somewhat larger than the best codec, and is
 * taken all the same where messages of its kind came back before, since only what went out in context
 * can be a base: an investment, which is made less and less often while it does not pay.
 */

export interface ContextChoice {
  /** `undefined` where another codec is the better one. */
  readonly offer: ContextOffer | undefined;
  /** `context`: smallest; `investment`: so that later messages can refer to it; `other`: not in context. */
  readonly rule: 'context' | 'investment' | 'other';
  /** Bytes of the message in context, where it was coded. */
  readonly bytes: number | undefined;
}

export interface Candidate {
  /** Nobody changes it any more. */
  readonly content: Uint8Array;
  readonly streamId: number;
  /** A part of a reply. */
  readonly isPart: boolean;
  /** What is learned apart: the kind of frame. */
  readonly kind: number;
  /** Context is no gain by itself: a message without a base is only ever invested in. */
  readonly isBinary: boolean;
}

/** A body this much smaller than its message needs no comparison. */
const CLEARLY_SMALLER = 5;
/** What an investment may cost: factor and bytes above the best other codec. */
const MAX_FACTOR = 1.5;
const MAX_MORE = 16;
/** Investments in a row that may be lost before they become rare. */
const FREE_TRIALS = 3;
/** Bytes from which on messages are larger, and largest; and how rare trials become. */
const SIZES = [1024, 16 * 1024] as const;
const RAREST = [64, 32, 8] as const;
/** Bytes of the last message that did not go out in context, to notice when it comes back. */
const HEAD_LENGTH = 1024;
const MIN_HEAD = 256;

/** What was learned of messages of one kind and size. */
interface Experience {
  /** Investments since one has paid. */
  misses: number;
  /** Messages since the last investment. */
  waited: number;
  head: Uint8Array | undefined;
  /** Without a base, context was no larger than the best other codec. */
  isFree: boolean;
}

export class ContextChooser {
  readonly #experiences = new Map<number, Experience>();

  /**
   * @param rival the size of what the best other codec makes of it; `undefined` where there is none. Asked
   * only where it may matter, and then the body it measured is the one to be sent.
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
    if (size === undefined || mayInvest || (experience.isFree && !isBinary)) {
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

/** Whether an investment is due: they have paid lately, one was not made for long, or this message came before. */
function isDue({ misses, waited, head }: Experience, content: Uint8Array): boolean {
  if (misses < FREE_TRIALS) return true;
  if (waited >= Math.min(2 ** (misses - FREE_TRIALS + 1), RAREST[sizeClass(content)])) return true;
  return head !== undefined && commonPrefix(content, head) * 2 >= head.length;
}

function sizeClass({ length }: Uint8Array): 0 | 1 | 2 {
  return length < SIZES[0] ? 0 : length < SIZES[1] ? 1 : 2;
}
