import { platform } from '#platform';
import { largestExpansion } from '../text/expansion.js';
import type { Base } from './base.js';
import { encodeContextBody } from './body.js';
import { type Checkpoints, checkpointsOf } from './checkpoints.js';
import type { ContextParameters } from './parameters.js';
import { BaseFinder, type Match } from './similarity.js';
import { ContextState, NEWEST } from './state.js';

/**
 * The sending end of context coding, for one direction of a session. Making an offer changes no state. If its
 * body is written, the caller reports the first frame to `begin` and the last to `complete`.
 */
export class ContextEncoder {
  readonly state: ContextState;
  readonly #finder = new BaseFinder();
  /** Offers whose body is being written, by stream. */
  readonly #underWay = new Map<number, OfferUnderWay>();

  constructor(parameters: ContextParameters) {
    this.state = new ContextState(parameters);
  }

  /** The rest of its state is {@link state}. Which bases are versions of one message is learned again. */
  snapshot(): ReadonlyMap<number, OfferUnderWay> {
    return this.#underWay;
  }

  /** After {@link state} was restored. */
  restore(offers: Iterable<readonly [number, OfferUnderWay]>): void {
    for (const base of this.state.bases) this.#finder.learn(base);
    for (const [streamId, offer] of offers) this.#underWay.set(streamId, offer);
  }

  /**
   * Finds the base that a message resembles, if any. Compresses nothing.
   *
   * @param isPart whether it is a part of a reply.
   * @param isQuick whether to compare only the two ends of messages.
   */
  match(content: Uint8Array, streamId: number, isPart: boolean, isQuick = false): Match {
    return this.#finder.find(content, this.state, streamId, isPart, isQuick);
  }

  /**
   * Codes a message against its match. The middle stays uncompressed if it is short or does not become
   * smaller.
   *
   * @param content must not be changed any more: it may become a base.
   * @throws {ProtocolError} `codec_not_loaded`.
   */
  code(content: Uint8Array, match: Match, isPart: boolean): ContextOffer {
    const { position, base, prefix, suffix } = match;
    const baseLength = base?.length ?? 0;
    const between = content.subarray(prefix, content.length - suffix);
    let middle = between;
    let compressed = false;
    if (middle.length >= MIN_COMPRESSED) {
      const level = levelFor(middle.length, baseLength);
      const packed = platform.zstdCompress(middle, level, base && dictionaryOf(base));
      const most = largestExpansion(packed.length) + baseLength;
      compressed = packed.length < middle.length && middle.length <= most;
      if (compressed) middle = packed;
    }
    const covered = prefix + suffix;
    const isAlike = middle.length * MIN_ALIKE <= content.length;
    const isSuperseded = baseLength - covered <= MAX_LOST || (isAlike && baseLength <= SMALL_BASE);
    const replaces = position >= NEWEST && isSuperseded;
    const checkpoints = isPart ? undefined : checkpointsOf(content, prefix, base?.checkpoints);
    const checksum = checkpoints?.checksum;
    return {
      content,
      isPart,
      checkpoints,
      replaces,
      isVersion: covered * 8 >= baseLength * 7 || middle.length * 8 <= between.length,
      bytes: encodeContextBody({ base: position, replaces, compressed, prefix, suffix, checksum, middle }),
      base: position,
      baseLength,
      prefix,
      suffix,
      compressed,
      middle: middle.length,
    };
  }

  /** The first frame of `offer` is written. */
  begin(streamId: number, offer: ContextOffer): void {
    this.#underWay.set(streamId, offer);
    this.state.begin(streamId, this.state.baseAt(offer.base, streamId));
  }

  /** The last frame of the body in progress is written. */
  complete(streamId: number): void {
    const offer = this.#underWay.get(streamId);
    if (offer === undefined) return;
    this.#underWay.delete(streamId);
    const kin = offer.isVersion ? this.state.baseOf(streamId) : undefined;
    const base = this.state.complete(streamId, offer);
    if (base !== undefined) this.#finder.learn(base, kin);
  }

  /** The body in progress will not be finished. */
  abandon(streamId: number): void {
    this.#underWay.delete(streamId);
    this.state.abandon(streamId);
  }

  /**
   * The stream ends or fails. Returns the body of its END: the CRC-32 of all parts in context, or nothing if
   * there are none.
   */
  end(streamId: number): Uint8Array<ArrayBuffer> {
    this.#underWay.delete(streamId);
    const checksum = this.state.end(streamId);
    if (checksum === undefined) return new Uint8Array(0);
    const bytes = new Uint8Array(4);
    new DataView(bytes.buffer).setUint32(0, checksum, true);
    return bytes;
  }
}

/** A message coded in context, which the caller may or may not send. */
export interface ContextOffer {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly content: Uint8Array;
  readonly isPart: boolean;
  /** Checkpoints of the content; `undefined` for parts. */
  readonly checkpoints: Checkpoints | undefined;
  readonly replaces: boolean;
  /** Most of the base is in the message, so the two are versions of one message. */
  readonly isVersion: boolean;
  /** Position of the base, 0 if there is none, and its length. */
  readonly base: number;
  readonly baseLength: number;
  readonly prefix: number;
  readonly suffix: number;
  readonly compressed: boolean;
  /** Coded bytes between prefix and suffix. */
  readonly middle: number;
}

/** The fields of an offer that are still needed while its body is being written. */
export type OfferUnderWay = Pick<
  ContextOffer,
  'content' | 'isPart' | 'checkpoints' | 'replaces' | 'isVersion' | 'prefix'
>;

/** Below this many bytes, zstd does not make the middle smaller. */
const MIN_COMPRESSED = 64;
/**
 * A middle longer than this is compressed at the lowest level, which takes a third of the time, and the end of a base
 * longer than this stands for all of it: zstd would read the whole base for each message.
 */
const LARGE = 1024 * 1024;
const LARGE_LEVEL = 1;
const MAX_DICTIONARY = 512 * 1024;
/**
 * The levels for middles of at most {@link MEDIUM} bytes, by the bytes of middle and base. zstd has other parameters
 * for each of these sizes. Node's zstd takes up to a sixth longer for these than for level 3, and saves 6 to 10 %.
 * Other implementations lower what would take them much longer.
 */
const LEVELS = [
  [128 * 1024, 6],
  [256 * 1024, 5],
] as const;
const MEDIUM = 96 * 1024;
/** For everything else. Levels 1 and 2 miss matches far back in the base. */
const LEVEL = 3;
/**
 * A message replaces its base if it contains all of it except at most this many bytes, as the next request of
 * a conversation does. So the list holds conversations, not versions of one, in a tenth of the memory.
 */
const MAX_LOST = 64;
/** A base this small is not worth its place once there is another one like it. */
const SMALL_BASE = 4 * 1024;
/** Messages are alike if one needs so many times fewer bytes against the other. Two or three are what zstd saves of any text. */
const MIN_ALIKE = 4;

function levelFor(middle: number, baseLength: number): number {
  if (middle > LARGE) return LARGE_LEVEL;
  const found = middle > MEDIUM ? undefined : LEVELS.find(([most]) => middle + baseLength <= most);
  return found?.[1] ?? LEVEL;
}

/** zstd counts distances from the end of its dictionary, so the end of a base means the same as the whole. */
function dictionaryOf({ content }: Base): Uint8Array {
  return content.length > LARGE ? content.subarray(-MAX_DICTIONARY) : content;
}
