/**
 * `count` bits, at most 25, from bit `at` of little-endian bytes. The four bytes from `at >> 3` on must be in
 * `view`.
 */
export function bitsAt(view: DataView, at: number, count: number): number {
  return (view.getInt32(at >> 3, true) >>> (at & 7)) & ((1 << count) - 1);
}

/** The position of the highest bit set in `value`, from 0; -1 for 0. */
export function highBit(value: number): number {
  return 31 - Math.clz32(value);
}

/**
 * Reads the bits of bytes `start` to `end` from the last one back (RFC 8878, section 4.1): the highest bit set of
 * the last byte only marks the beginning.
 */
export class BitReader {
  readonly #view: DataView;
  readonly #start: number;
  #at: number;

  /** @throws {Error} if no bit is set in the last byte. */
  constructor(view: DataView, start: number, end: number) {
    this.#view = view;
    this.#start = start * 8;
    this.#at = beginningOf(view, start, end);
  }

  /** The bits that are left; negative if more were taken. The caller checks this before it trusts any. */
  get left(): number {
    return this.#at - this.#start;
  }

  /** Takes `count` bits, at most 25. */
  take(count: number): number {
    this.#at -= count;
    return bitsAt(this.#view, this.#at, count);
  }
}

/** The position of the mark in the last byte before `end`. @throws {Error} if there is none. */
export function beginningOf(view: DataView, start: number, end: number): number {
  const last = end > start ? view.getUint8(end - 1) : 0;
  if (last === 0) throw new Error('a bitstream has no beginning');
  return (end - 1) * 8 + highBit(last);
}

/** Writes bits from the lowest bit of each byte upwards. Bits beyond the end of `bytes` are lost. */
export class BitWriter {
  readonly #bytes: Uint8Array;
  #at: number;
  #pending = 0;
  #count = 0;

  constructor(bytes: Uint8Array, at: number) {
    this.#bytes = bytes;
    this.#at = at;
  }

  /** Appends the lowest `count` bits of `value`, at most 24. */
  add(value: number, count: number): void {
    this.#pending |= (value & ((1 << count) - 1)) << this.#count;
    for (this.#count += count; this.#count >= 8; this.#count -= 8) {
      this.#bytes[this.#at++] = this.#pending;
      this.#pending >>>= 8;
    }
  }

  /** Fills the last byte with zeros. Returns the offset after it. */
  finish(): number {
    if (this.#count > 0) this.add(0, 8 - this.#count);
    return this.#at;
  }

  /** Ends a bitstream that is read from its end: a 1 marks its last bit. Returns the offset after it. */
  mark(): number {
    this.add(1, 1);
    return this.finish();
  }
}
