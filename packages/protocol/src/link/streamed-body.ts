import type { BodyCodec } from '../codec/body.js';
import type { BodyFields, BodyKind } from './frame.js';

/** The part of a body that is known before its bytes are. */
export interface StreamedBodyOptions extends Pick<BodyFields, 'address' | 'onWritten'> {
  readonly kind: BodyKind;
  readonly streamId: number;
  readonly codec: BodyCodec;
  readonly totalLength: number;
}

interface Chunk {
  readonly bytes: Uint8Array;
  readonly onWritten: (() => void) | undefined;
}

/**
 * An outgoing body whose bytes are fed while it is written, so that it is never in memory as a whole. Its
 * length is known from the start.
 */
export class StreamedBody implements BodyFields {
  readonly kind: BodyKind;
  readonly streamId: number;
  readonly codec: BodyCodec;
  readonly totalLength: number;
  readonly secret = false;
  readonly metadata = undefined;
  readonly address: string | undefined;
  alias: number | undefined;
  readonly onWritten: BodyFields['onWritten'];
  /** Bytes that were fed and not written yet. */
  waiting = 0;
  readonly #chunks: Chunk[] = [];
  /** Written bytes of the first chunk. */
  #offset = 0;

  constructor({ kind, streamId, codec, totalLength, address, onWritten }: StreamedBodyOptions) {
    this.kind = kind;
    this.streamId = streamId;
    this.codec = codec;
    this.totalLength = totalLength;
    this.address = address;
    this.onWritten = onWritten;
  }

  get originalLength(): number {
    return this.totalLength;
  }

  /**
   * Adds the next bytes of the body, at least one. They are copied when written and must not change before.
   */
  feed(bytes: Uint8Array, onWritten?: () => void): void {
    this.#chunks.push({ bytes, onWritten });
    this.waiting += bytes.length;
  }

  /** Moves the next `length` of the waiting bytes to `at` in `target`. */
  take(target: Uint8Array, at: number, length: number): void {
    this.waiting -= length;
    for (let rest = length; rest > 0; ) {
      const { bytes, onWritten } = this.#chunks[0] as Chunk;
      const part = Math.min(rest, bytes.length - this.#offset);
      target.set(bytes.subarray(this.#offset, this.#offset + part), at);
      at += part;
      rest -= part;
      this.#offset += part;
      if (this.#offset < bytes.length) return;
      this.#chunks.shift();
      this.#offset = 0;
      onWritten?.();
    }
  }
}
