import { varintLength, writeVarint } from '../../base/bytes.js';
import { encodeUtf8 } from '../../base/text.js';

/**
 * Writes Protocol Buffers fields into a buffer that is reused for every message. The library's writer
 * allocates its result, which for small metadata takes as long as all other work.
 */
export class FieldWriter {
  #bytes = new Uint8Array(256);
  #length = 0;
  readonly #limit: number;
  readonly #overflow: (length: number) => Error;

  /**
   * @param limit the most bytes of a message.
   * @param overflow creates the error to throw above the limit.
   */
  constructor(limit: number, overflow: (length: number) => Error) {
    this.#limit = limit;
    this.#overflow = overflow;
  }

  /** Starts a new message. */
  reset(): void {
    this.#length = 0;
  }

  /** The bytes written since `reset`, as a view that the next message overwrites. */
  written(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  /** @param value a uint32. */
  uint32(field: number, value: number): void {
    this.#reserve(10);
    this.#tag(field, WireType.VARINT);
    this.#varint(value);
  }

  /** @param values uint32s, packed into one field. */
  packed(field: number, values: readonly number[]): void {
    let length = 0;
    for (const value of values) length += varintLength(value);
    this.#reserve(10 + length);
    this.#tag(field, WireType.LENGTH_DELIMITED);
    this.#varint(length);
    for (const value of values) this.#varint(value);
  }

  /** @throws {ProtocolError} `lone_surrogate`. */
  text(field: number, text: string): void {
    this.#reserve(10 + text.length);
    this.#tag(field, WireType.LENGTH_DELIMITED);
    const start = this.#length;
    this.#varint(text.length);
    let at = this.#length;
    for (let i = 0; i < text.length; i++) {
      const unit = text.charCodeAt(i);
      if (unit > 0x7f) {
        this.#length = start;
        this.#bytesOf(encodeUtf8(text));
        return;
      }
      this.#bytes[at++] = unit;
    }
    this.#length = at;
  }

  /** One entry of a map from string to string. @throws {ProtocolError} `lone_surrogate`. */
  entry(field: number, key: string, value: string): void {
    const [keyBytes, valueBytes] = [encodeUtf8(key), encodeUtf8(value)];
    const length =
      2 +
      varintLength(keyBytes.length) +
      keyBytes.length +
      varintLength(valueBytes.length) +
      valueBytes.length;
    this.#reserve(10 + length);
    this.#tag(field, WireType.LENGTH_DELIMITED);
    this.#varint(length);
    this.#tag(1, WireType.LENGTH_DELIMITED);
    this.#bytesOf(keyBytes);
    this.#tag(2, WireType.LENGTH_DELIMITED);
    this.#bytesOf(valueBytes);
  }

  /** Appends fields that are already encoded. */
  raw(bytes: Uint8Array): void {
    this.#reserve(bytes.length);
    this.#bytes.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  #tag(field: number, wireType: number): void {
    this.#varint((field << 3) | wireType);
  }

  #varint(value: number): void {
    this.#length = writeVarint(this.#bytes, this.#length, value);
  }

  #bytesOf(bytes: Uint8Array): void {
    this.#reserve(5 + bytes.length);
    this.#varint(bytes.length);
    this.raw(bytes);
  }

  /** Makes room for `length` further bytes; tags and varints may leave some of them unused. */
  #reserve(length: number): void {
    const needed = this.#length + length;
    if (needed <= this.#bytes.length) return;
    if (needed > this.#limit + 10) throw this.#overflow(needed);
    const grown = new Uint8Array(Math.max(needed, this.#bytes.length * 2));
    grown.set(this.written());
    this.#bytes = grown;
  }
}

const WireType = { VARINT: 0, LENGTH_DELIMITED: 2 } as const;
