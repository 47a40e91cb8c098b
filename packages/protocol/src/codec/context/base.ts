import { platform } from '#platform';
import { ProtocolError } from '../../base/errors.js';
import type { Checkpoints } from './checkpoints.js';

/** A message is packed in segments of this many bytes, so that the next version of it can share them. */
export const SEGMENT_SIZE = 64 * 1024;
/**
 * The segments that are compressed for one message, about 4 ms of work; what is new beyond them is kept as it is. A peer can send
 * a message of megabytes that shares nothing with its base's segments in a few bytes.
 */
export const MAX_COMPRESSED = 8;
/** Higher levels take less memory, but a request would wait for them. */
const LEVEL = 1;

/** A base from which another one takes the segments of what both begin with. */
export interface Forerunner {
  readonly base: Base;
  /** The number of bytes that both begin with. */
  readonly prefix: number;
}

/**
 * A message against which others can be coded. Once it is packed, it holds its content compressed and restores it
 * when it is read. Restored content stays for as long as the garbage collector leaves it there.
 */
export class Base {
  /** The number of bodies in progress that were coded against it. */
  pins = 0;
  /** Bytes of its content. */
  readonly length: number;
  /** Of the content; `undefined` for parts of a reply, and after a move to another process. */
  readonly checkpoints: Checkpoints | undefined;
  #content: Uint8Array | undefined;
  #restored: WeakRef<Uint8Array> | undefined;
  /** Those that were not compressed, or not made smaller by it, are stored as they are. */
  #segments: readonly Uint8Array[] | undefined;
  #packedBytes = 0;

  /** @param content must not be changed any more. */
  constructor(content: Uint8Array, checkpoints?: Checkpoints) {
    this.#content = content;
    this.length = content.length;
    this.checkpoints = checkpoints;
  }

  get content(): Uint8Array {
    const known = this.#content ?? this.#restored?.deref();
    if (known !== undefined) return known;
    const restored = this.#restore();
    this.#restored = new WeakRef(restored);
    return restored;
  }

  get isPacked(): boolean {
    return this.#segments !== undefined;
  }

  /** Bytes of its segments, including those that it shares with others; 0 while it is not packed. */
  get packedBytes(): number {
    return this.#packedBytes;
  }

  /** Compresses the content, at most {@link MAX_COMPRESSED} segments of it. Without a loaded zstd it stays as it is. */
  pack(forerunner?: Forerunner): void {
    const content = this.#content;
    if (content === undefined) return;
    const segments = forerunner?.base.segmentsOf(forerunner.prefix) ?? [];
    const last = segments.length + MAX_COMPRESSED;
    try {
      for (let at = segments.length * SEGMENT_SIZE; at < content.length; at += SEGMENT_SIZE) {
        const segment = content.subarray(at, at + SEGMENT_SIZE);
        segments.push(segments.length < last ? packSegment(segment) : segment.slice());
      }
    } catch (error) {
      if (error instanceof ProtocolError && error.code === 'codec_not_loaded') return;
      throw error;
    }
    this.#segments = segments;
    this.#packedBytes = segments.reduce((sum, { length }) => sum + length, 0);
    this.#restored = new WeakRef(content);
    this.#content = undefined;
  }

  /** The whole segments of the first `length` bytes; none while it is not packed. */
  segmentsOf(length: number): Uint8Array[] {
    return this.#segments?.slice(0, Math.floor(length / SEGMENT_SIZE)) ?? [];
  }

  #restore(): Uint8Array {
    const content = new Uint8Array(this.length);
    let at = 0;
    for (const segment of this.#segments ?? []) {
      const size = Math.min(SEGMENT_SIZE, this.length - at);
      content.set(segment.length === size ? segment : platform.zstdDecompress(segment, size), at);
      at += size;
    }
    return content;
  }
}

/** Fewer bytes than `segment`, or a copy of it. */
function packSegment(segment: Uint8Array): Uint8Array {
  const packed = platform.zstdCompress(segment, LEVEL);
  // Both results may be views of larger buffers, which would stay in memory with them.
  return packed.length < segment.length ? packed.slice() : segment.slice();
}
