import { varintLength, writeVarint } from '../base/bytes.js';
import { LINK_FIRST_BYTE } from '../base/frame-kind.js';
import type { BodyCodec } from '../codec/body.js';
import { type BodyKind, LinkFlag, type OutgoingBody } from './frame.js';

/** What is known of a body before its bytes are. */
export interface SourcedBodyOptions extends Pick<OutgoingBody, 'agent' | 'onWritten'> {
  readonly kind: BodyKind;
  readonly streamId: number;
  readonly codec: BodyCodec;
  readonly totalLength: number;
}

interface Piece {
  readonly bytes: Uint8Array;
  readonly onWritten: (() => void) | undefined;
}

/**
 * A body on its way out whose bytes come while it is written, so that it need never be in memory as a
 * whole. Its length is known from the start; what of it goes into one frame is up to whoever feeds it.
 */
export class SourcedBody {
  readonly kind: BodyKind;
  readonly streamId: number;
  readonly codec: BodyCodec;
  readonly totalLength: number;
  readonly agent: string | undefined;
  /** The number of `agent`, known when the first frame is written. */
  alias: number | undefined;
  readonly onWritten: OutgoingBody['onWritten'];
  /** Bytes that frames have carried. */
  written = 0;
  /** Bytes that were fed and that no frame has carried. */
  waiting = 0;
  readonly #pieces: Piece[] = [];
  /** Bytes of the first piece that are written. */
  #offset = 0;

  constructor({ kind, streamId, codec, totalLength, agent, onWritten }: SourcedBodyOptions) {
    this.kind = kind;
    this.streamId = streamId;
    this.codec = codec;
    this.totalLength = totalLength;
    this.agent = agent;
    this.onWritten = onWritten;
  }

  get isWritten(): boolean {
    return this.written === this.totalLength;
  }

  /**
   * The next bytes of the body, at least one, which are copied when they are written and must not change
   * before.
   */
  feed(bytes: Uint8Array, onWritten?: () => void): void {
    this.#pieces.push({ bytes, onWritten });
    this.waiting += bytes.length;
  }

  /** Bytes that stand before the first `length` bytes of the body, behind the codec byte. */
  headLength(length: number): number {
    if (this.written > 0) return 0;
    const alias = this.alias === undefined ? 0 : varintLength(this.alias);
    return length === this.totalLength ? alias : alias + varintLength(this.totalLength);
  }

  /** Bytes of the frame that carries the next `length` bytes. */
  frameLength(length: number): number {
    return 2 + varintLength(this.streamId) + this.headLength(length) + length;
  }

  /** Writes the frame that carries the next `length` of the waiting bytes to `target` from `at` on. */
  writeFrame(target: Uint8Array, at: number, length: number): void {
    const isFirst = this.written === 0;
    const isLast = this.written + length === this.totalLength;
    const alias = isFirst ? this.alias : undefined;
    target[at] = LINK_FIRST_BYTE | this.kind;
    at = writeVarint(target, at + 1, this.streamId);
    target[at++] = this.codec | (isLast ? 0 : LinkFlag.MORE) | (alias === undefined ? 0 : LinkFlag.ADDRESSED);
    if (alias !== undefined) at = writeVarint(target, at, alias);
    if (isFirst && !isLast) at = writeVarint(target, at, this.totalLength);
    this.written += length;
    this.waiting -= length;
    for (let rest = length; rest > 0; ) {
      const { bytes, onWritten } = this.#pieces[0] as Piece;
      const part = Math.min(rest, bytes.length - this.#offset);
      target.set(bytes.subarray(this.#offset, this.#offset + part), at);
      at += part;
      rest -= part;
      this.#offset += part;
      if (this.#offset < bytes.length) return;
      this.#pieces.shift();
      this.#offset = 0;
      onWritten?.();
    }
  }
}
