import { platform } from '#platform';
import { Base, type Forerunner } from './base.js';
import type { Checkpoints } from './checkpoints.js';
import type { ContextParameters } from './parameters.js';

/**
 * The state that both ends hold of one direction, and the rules by which it changes. The sender applies them
 * when it writes the first and the last frame of a body, the receiver when it receives them. The order is the
 * same, so both hold the same state without exchanging it.
 *
 * - A body enters when it is complete: a part of at most {@link MAX_SLOT_SIZE} bytes into the slot of its
 *   stream, anything else at the front of the list.
 * - A base is pinned, and stays, while a body that was coded against it is in progress.
 * - A body that replaces its base removes it from the list, unless other bodies have it pinned.
 * - The oldest bases leave to make room. If no room can be made, the body does not enter and no base leaves.
 * - The slot of a stream is dropped at its END or error; its unfinished body also at its CANCEL.
 *
 * Each end packs as much of its list as it likes: that is not part of the rules, and the other end cannot tell.
 */

/** The most bytes of a stream's last part that are kept in its slot. */
export const MAX_SLOT_SIZE = 4 * 1024;
/** The newest messages of this many bytes together are not packed. */
export const MAX_UNPACKED = 1024 * 1024;

/** Positions by which a body names its base. */
export const NO_BASE = 0;
/** The last part of the same stream. */
export const SLOT = 1;
/** The newest entry of the list; older ones follow. */
export const NEWEST = 2;

/** A complete body, and how it enters the state. */
export interface Completion {
  readonly content: Uint8Array;
  /** A part of a reply. */
  readonly isPart: boolean;
  /** The body replaces its base. */
  readonly replaces: boolean;
  /** Bytes that the body and its base both begin with. @default 0 */
  readonly prefix?: number;
  /** Of the content, for the versions that follow. */
  readonly checkpoints?: Checkpoints | undefined;
}

export interface StreamState {
  slot: Base | undefined;
  /** CRC-32 of all parts. */
  checksum: number;
}

/** The streams of a {@link ContextState}; each field is `undefined` before the first one. */
export interface ContextStreams {
  /** Streams with a part that was coded in context. */
  readonly streams: ReadonlyMap<number, StreamState> | undefined;
  /** The base of the body in progress. */
  readonly underWay: ReadonlyMap<number, Base | undefined> | undefined;
}

export class ContextState {
  readonly #parameters: ContextParameters;
  /** Newest first. */
  readonly #bases: Base[] = [];
  #bytes = 0;
  #packedBytes = 0;
  /** Streams with a part that was coded in context. */
  #streams: Map<number, StreamState> | undefined;
  /** The base of the body in progress, by stream; `undefined` if it has none. */
  #underWay: Map<number, Base | undefined> | undefined;

  constructor(parameters: ContextParameters) {
    this.#parameters = parameters;
  }

  /** Its state beside {@link bases}. {@link begin} restores what is under way. */
  snapshot(): ContextStreams {
    return { streams: this.#streams, underWay: this.#underWay };
  }

  /** @param bases the list, newest first, within the parameters. */
  restore(bases: readonly Base[], streams: Map<number, StreamState>): void {
    this.#bases.push(...bases);
    for (const { length } of bases) this.#bytes += length;
    this.#streams = streams;
    this.#pack();
  }

  /** The list, newest first. */
  get bases(): readonly Base[] {
    return this.#bases;
  }

  /** Bytes of the list. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Bytes of memory that packed messages take; one that was edited counts in full beside its earlier version. */
  get packedBytes(): number {
    return this.#packedBytes;
  }

  /** Whether a message of `length` bytes can ever enter the list. */
  mayKeep(length: number): boolean {
    return length <= this.#parameters.maxBytes;
  }

  /** The number of streams with a slot or a body in progress. */
  get streams(): number {
    return new Set([...(this.#streams?.keys() ?? []), ...(this.#underWay?.keys() ?? [])]).size;
  }

  slot(streamId: number): Base | undefined {
    return this.#streams?.get(streamId)?.slot;
  }

  /** The base at `position`, `undefined` if there is none. */
  baseAt(position: number, streamId: number): Base | undefined {
    return position === SLOT ? this.slot(streamId) : this.#bases[position - NEWEST];
  }

  /** The first frame of a body. */
  begin(streamId: number, base: Base | undefined): void {
    if (base !== undefined) base.pins++;
    this.#underWay ??= new Map();
    this.#underWay.set(streamId, base);
  }

  /** The base of the body in progress. */
  baseOf(streamId: number): Base | undefined {
    return this.#underWay?.get(streamId);
  }

  /** The last frame of a body. Returns its entry in the list, if it entered. */
  complete(
    streamId: number,
    { content, isPart, replaces, prefix = 0, checkpoints }: Completion,
  ): Base | undefined {
    const base = this.baseOf(streamId);
    this.abandon(streamId);
    if (isPart) {
      const stream = this.#streamOf(streamId);
      stream.checksum = platform.crc32(content, stream.checksum);
      if (content.length <= MAX_SLOT_SIZE) {
        stream.slot = new Base(content);
        return undefined;
      }
    }
    if (!this.#makeRoom(content.length, replaces ? base : undefined)) return undefined;
    const entered = new Base(content, checkpoints);
    this.#bases.unshift(entered);
    this.#bytes += content.length;
    this.#pack(base && { base, prefix });
    return entered;
  }

  /** The body in progress will not be completed. */
  abandon(streamId: number): void {
    const base = this.baseOf(streamId);
    if (base !== undefined) base.pins--;
    this.#underWay?.delete(streamId);
  }

  /** The stream ends in this direction. Returns the CRC-32 of its parts, if it had any in context. */
  end(streamId: number): number | undefined {
    this.abandon(streamId);
    const checksum = this.#streams?.get(streamId)?.checksum;
    this.#streams?.delete(streamId);
    return checksum;
  }

  #streamOf(streamId: number): StreamState {
    this.#streams ??= new Map();
    let stream = this.#streams.get(streamId);
    if (stream === undefined) {
      stream = { slot: undefined, checksum: 0 };
      this.#streams.set(streamId, stream);
    }
    return stream;
  }

  /** Drops messages until one of `length` bytes fits. If it cannot fit, none leaves. */
  #makeRoom(length: number, replaced: Base | undefined): boolean {
    const { maxBytes, maxMessages } = this.#parameters;
    const leaving = new Set<Base>();
    let bytes = this.#bytes + length;
    const leave = (base: Base): void => {
      leaving.add(base);
      bytes -= base.length;
    };
    if (replaced?.pins === 0 && this.#bases.includes(replaced)) leave(replaced);
    for (let i = this.#bases.length - 1; i >= 0; i--) {
      if (bytes <= maxBytes && this.#bases.length - leaving.size < maxMessages) break;
      const base = this.#bases[i] as Base;
      if (base.pins === 0 && !leaving.has(base)) leave(base);
    }
    if (bytes > maxBytes || this.#bases.length - leaving.size >= maxMessages) return false;
    for (const base of leaving) {
      this.#bases.splice(this.#bases.indexOf(base), 1);
      this.#packedBytes -= base.packedBytes;
    }
    this.#bytes = bytes - length;
    return true;
  }

  /** Packs what exceeds {@link MAX_UNPACKED}. @param forerunner of the newest message. */
  #pack(forerunner?: Forerunner): void {
    if (this.#bytes <= MAX_UNPACKED) return;
    let unpacked = 0;
    for (const base of this.#bases) {
      if (base.isPacked) continue;
      unpacked += base.length;
      if (unpacked <= MAX_UNPACKED) continue;
      unpacked -= base.length;
      base.pack(base === this.#bases[0] ? forerunner : undefined);
      this.#packedBytes += base.packedBytes;
    }
  }
}
