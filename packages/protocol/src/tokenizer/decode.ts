import { ProtocolError } from '../base/errors.js';
import { DEFAULT_LIMITS } from '../base/limits.js';
import { decodeUtf8 } from '../base/text.js';
import { MAX_SHORT } from './short-key.js';
import type { TokenTable } from './token-table.js';
import type { Vocabulary } from './vocabulary.js';

/**
 * From token IDs to bytes and text. The decoder adds up the lengths first, so it finds an unknown ID or an
 * overlong text before it allocates anything.
 */
export interface DecodeOptions {
  /** Whether to accept the IDs of special tokens, which decode to their names. @default false */
  readonly allowSpecial?: boolean | undefined;
  /** The most bytes of text to accept. @default the default of `maxMessageSize` */
  readonly maxBytes?: number | undefined;
}

/** A reused buffer, in which short texts are decoded. */
const SCRATCH = new Uint8Array(8192);
/** Longer tokens are copied natively. */
const COPY_NATIVELY = 24;

export class TokenDecoder {
  readonly #vocabulary: Vocabulary;
  readonly #table: TokenTable;
  readonly #specials: ReadonlyMap<number, Uint8Array>;

  constructor(vocabulary: Vocabulary, table: TokenTable) {
    const encoder = new TextEncoder();
    this.#vocabulary = vocabulary;
    this.#table = table;
    this.#specials = new Map([...vocabulary.specials].map(([id, name]) => [id, encoder.encode(name)]));
  }

  /** @throws {ProtocolError} `bad_token`, `decompressed_too_large`, `bad_utf8`. */
  text(ids: ArrayLike<number>, options: DecodeOptions = {}): string {
    const length = this.length(ids, options);
    const bytes = length <= SCRATCH.length ? SCRATCH.subarray(0, length) : new Uint8Array(length);
    this.write(ids, bytes, 0);
    return decodeUtf8(bytes);
  }

  /** @throws {ProtocolError} `bad_token`, `decompressed_too_large`. */
  bytes(ids: ArrayLike<number>, options: DecodeOptions = {}): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(this.length(ids, options));
    this.write(ids, bytes, 0);
    return bytes;
  }

  /**
   * The number of bytes that `ids` stand for.
   *
   * @throws {ProtocolError} `bad_token`, `decompressed_too_large`.
   */
  length(ids: ArrayLike<number>, options: DecodeOptions = {}): number {
    const { offsets } = this.#table;
    const { ordinary } = this.#vocabulary;
    const maxBytes = options.maxBytes ?? DEFAULT_LIMITS.maxMessageSize;
    let length = 0;
    for (let i = 0; i < ids.length; i++) {
      const id = ids[i] as number;
      if (id >>> 0 === id && id < ordinary) {
        length += (offsets[id + 1] as number) - (offsets[id] as number);
      } else {
        length += this.#special(id, options.allowSpecial === true).length;
      }
    }
    if (length > maxBytes) {
      throw new ProtocolError(
        'decompressed_too_large',
        `${ids.length} tokens stand for ${length} bytes of text, but at most ${maxBytes} are accepted`,
      );
    }
    return length;
  }

  /** Writes the bytes that `ids` stand for. The caller has checked `ids` with `length`. */
  write(ids: ArrayLike<number>, target: Uint8Array, offset: number): void {
    const { bytes, view: from, offsets } = this.#table;
    const to = new DataView(target.buffer, target.byteOffset, target.length);
    const { ordinary } = this.#vocabulary;
    // Most tokens are short. For those, copy eight bytes; the next token overwrites the surplus.
    const lastShort = target.length - MAX_SHORT;
    let at = offset;
    for (let i = 0; i < ids.length; i++) {
      const id = ids[i] as number;
      if (id >= ordinary) {
        const special = this.#special(id, true);
        target.set(special, at);
        at += special.length;
        continue;
      }
      const start = offsets[id] as number;
      const length = (offsets[id + 1] as number) - start;
      if (length <= MAX_SHORT && at <= lastShort) {
        to.setInt32(at, from.getInt32(start));
        to.setInt32(at + 4, from.getInt32(start + 4));
      } else if (length > COPY_NATIVELY) {
        target.set(bytes.subarray(start, start + length), at);
      } else {
        for (let k = 0; k < length; k++) target[at + k] = bytes[start + k] as number;
      }
      at += length;
    }
  }

  #special(id: number, isAllowed: boolean): Uint8Array {
    const special = this.#specials.get(id);
    if (special === undefined) {
      throw new ProtocolError('bad_token', `${this.#vocabulary.name} has no token ${id}`);
    }
    if (!isAllowed) {
      throw new ProtocolError(
        'bad_token',
        `${id} is the special token ${this.#vocabulary.specials.get(id)}, which is not accepted as text`,
      );
    }
    return special;
  }
}
