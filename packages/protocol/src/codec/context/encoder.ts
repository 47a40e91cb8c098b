import { platform } from '#platform';
import { largestExpansion } from '../text/expansion.js';
import { encodeContextBody } from './body.js';
import { type Checkpoints, checkpointsOf } from './checkpoints.js';
import type { ContextParameters } from './parameters.js';
import { BaseFinder, type Match } from './similarity.js';
import { ContextState, NEWEST } from './state.js';

/**
 * The sending end of context coding, for one direction of a session. An offer changes nothing; the body
 * that is written in the end is reported by `begin` with its first frame and `complete` with its last.
 */
export class ContextEncoder {
  readonly state: ContextState;
  readonly #finder = new BaseFinder();
  /** Offers that were begun, by stream. */
  readonly #underWay = new Map<number, ContextOffer>();

  constructor(parameters: ContextParameters) {
    this.state = new ContextState(parameters);
  }

  /**
   * What a message resembles, or none. Compresses nothing.
   *
   * @param isPart it is a part of a reply.
   * @param isQuick looks at the two ends of messages only.
   */
  match(content: Uint8Array, streamId: number, isPart: boolean, isQuick = false): Match {
    return this.#finder.find(content, this.state, streamId, isPart, isQuick);
  }

  /**
   * A message coded against its match. What stands between the two ends travels as it is where it is
   * short or does not compress.
   *
   * @param content nobody changes it any more: it may become a base.
   * @throws {ProtocolError} `codec_not_loaded`.
   */
  code(content: Uint8Array, match: Match, isPart: boolean): ContextOffer {
    const { position, base, prefix, suffix } = match;
    const baseLength = base?.content.length ?? 0;
    const between = content.subarray(prefix, content.length - suffix);
    let middle = between;
    let compressed = false;
    if (middle.length >= MIN_COMPRESSED) {
      const packed = platform.zstdCompress(
        middle,
        levelFor(middle.length, content.length, baseLength),
        base?.content,
      );
      const most = largestExpansion(packed.length) + baseLength;
      compressed = packed.length < middle.length && middle.length <= most;
      if (compressed) middle = packed;
    }
    const covered = prefix + suffix;
    const isAlike = middle.length * 2 <= content.length;
    const isSuperseded = baseLength - covered <= MAX_LOST || (isAlike && baseLength <= SMALL_BASE);
    const replaces = position >= NEWEST && isSuperseded;
    const known = this.#finder.checkpointsOf(base);
    const checkpoints = isPart ? undefined : checkpointsOf(content, prefix, known);
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

  /** The last frame of the body under way is written. */
  complete(streamId: number): void {
    const offer = this.#underWay.get(streamId);
    if (offer === undefined) return;
    this.#underWay.delete(streamId);
    const kin = offer.isVersion ? this.state.baseOf(streamId) : undefined;
    const base = this.state.complete(streamId, offer);
    if (base !== undefined) this.#finder.learn(base, kin, offer.checkpoints);
  }

  /** The body under way is not finished. */
  abandon(streamId: number): void {
    this.#underWay.delete(streamId);
    this.state.abandon(streamId);
  }

  /** The stream ends or fails. Returns what its end carries: the CRC-32 of all parts in context, if any. */
  end(streamId: number): Uint8Array<ArrayBuffer> {
    this.#underWay.delete(streamId);
    const checksum = this.state.end(streamId);
    if (checksum === undefined) return new Uint8Array(0);
    const bytes = new Uint8Array(4);
    new DataView(bytes.buffer).setUint32(0, checksum, true);
    return bytes;
  }
}

/** A message coded in context, which may or may not be written. */
export interface ContextOffer {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly content: Uint8Array;
  readonly isPart: boolean;
  /** Of the content; parts have none. */
  readonly checkpoints: Checkpoints | undefined;
  readonly replaces: boolean;
  /** Most of the base is in the message, so that the two belong together. */
  readonly isVersion: boolean;
  /** Position of the base, 0 for none, and its bytes. */
  readonly base: number;
  readonly baseLength: number;
  readonly prefix: number;
  readonly suffix: number;
  readonly compressed: boolean;
  /** Bytes between prefix and suffix, as they travel. */
  readonly middle: number;
}

/** Below, a zstd frame is no smaller. */
const MIN_COMPRESSED = 64;
/**
 * Where the cut leaves most of a message, as in a window that moves over its history, and message and base
 * are no larger than this together, a higher level is worth its time: 6 % fewer bytes in the third of a
 * millisecond that the lower one takes for 200 KB.
 */
const SMALL = 72 * 1024;
const SMALL_LEVEL = 6;
/** Levels 1 and 2 miss what stands far back in the base, 5 takes four times as long for a fifteenth less. */
const LEVEL = 3;
/**
 * A message takes its base's place where it has all of it but so many bytes, as the next request of a
 * conversation has. So the list holds conversations, not versions of one, in a tenth of the memory.
 */
const MAX_LOST = 64;
/** A base this small is worth less than its place, once there is another one like it. */
const SMALL_BASE = 4 * 1024;

function levelFor(middle: number, length: number, baseLength: number): number {
  return middle * 2 > length && middle + baseLength <= SMALL ? SMALL_LEVEL : LEVEL;
}
