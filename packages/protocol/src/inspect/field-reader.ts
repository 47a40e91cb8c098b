import { ByteReader } from '../base/bytes.js';
import type { EncodingName } from '../base/constants.js';
import { type ErrorCode, ProtocolError } from '../base/errors.js';
import { decodeUtf8 } from '../base/text.js';
import type { LoadableCodec } from '../codec/load.js';
import type { FieldValue } from './explanation.js';
import { Fault, findField, type MutableField, type Report, truncate } from './report.js';

/** Reads a frame from front to back and records each piece as a field. Fields read before a fault are kept. */
export class FieldReader {
  readonly report: Report;
  /** All bytes up to the end of this reader's range. */
  readonly bytes: Uint8Array;
  readonly #reader: ByteReader;
  readonly #root: MutableField[];
  #into: MutableField[];
  #last: MutableField | undefined;

  constructor(report: Report, bytes: Uint8Array, into: MutableField[] = report.fields) {
    this.report = report;
    this.bytes = bytes;
    this.#reader = new ByteReader(bytes);
    this.#root = into;
    this.#into = into;
  }

  get offset(): number {
    return this.#reader.offset;
  }

  get remaining(): number {
    return this.#reader.remaining;
  }

  /** The unread bytes. */
  get rest(): Uint8Array {
    return this.bytes.subarray(this.offset);
  }

  u8(name: string): number {
    return this.#number(name, () => this.#reader.u8(name));
  }

  u16(name: string): number {
    return this.#number(name, () => this.#reader.u16(name));
  }

  u32(name: string): number {
    return this.#number(name, () => this.#reader.u32(name));
  }

  f32(name: string): number {
    return this.#number(name, () => this.#reader.f32(name));
  }

  varint(name: string, max?: number): number {
    return this.#number(name, () => this.#reader.varint(name, max));
  }

  /** The next `length` bytes, without a value. */
  take(name: string, length: number): Uint8Array {
    const offset = this.offset;
    const bytes = this.#attempt(() => this.#reader.take(length, name));
    this.#push(name, offset);
    return bytes;
  }

  /** The next `length` bytes as UTF-8. */
  text(name: string, length: number): string {
    const offset = this.offset;
    const text = this.#attempt(() => decodeUtf8(this.#reader.take(length, name)));
    this.#push(name, offset).value = truncate(text);
    return text;
  }

  /**
   * Reads UTF-8 without recording a field.
   *
   * @param place offset at which a fault is reported. @default here
   */
  readText(length: number, place = this.offset): string {
    return this.#attempt(() => decodeUtf8(this.#reader.take(length, 'a text')), place);
  }

  /** Skips bytes without recording a field. */
  skip(length: number): void {
    this.#attempt(() => this.#reader.take(length, 'the frame'));
  }

  /** Sets the value of the last field, and what it means. */
  annotate(value: FieldValue | undefined, note?: string): void {
    if (this.#last === undefined) return;
    if (value !== undefined) this.#last.value = value;
    if (note !== undefined) this.#last.note = note;
  }

  /** Sets what the last field means. */
  note(text: string): void {
    this.annotate(undefined, text);
  }

  /** Marks the last field as a credential, whose bytes must not be shown. */
  markSecret(): void {
    if (this.#last !== undefined) this.#last.isSecret = true;
  }

  /** A field that consists of what `read` reads, recorded as its children. */
  group<T>(name: string, read: (field: MutableField) => T): T {
    const offset = this.offset;
    const outer = this.#into;
    const field = this.#push(name, offset);
    this.#into = field.children;
    try {
      return read(field);
    } finally {
      field.length = this.offset - offset;
      this.#into = outer;
      this.#last = field;
    }
  }

  /** The next `length` bytes, with a reader that ends where they end. */
  within<T>(name: string, length: number, read: (reader: FieldReader) => T): T {
    const start = this.offset;
    this.take(name, length);
    const field = this.#last as MutableField;
    const inner = new FieldReader(this.report, this.bytes.subarray(0, start + length), field.children);
    inner.skip(start);
    return read(inner);
  }

  /**
   * The next `length` bytes, decoded; the pieces of the decoded bytes become children.
   *
   * @param place maps an offset in the decoded bytes to one in the coded bytes. @default their beginning
   */
  coded<T>(
    name: string,
    length: number,
    decode: (coded: Uint8Array) => Uint8Array,
    read: (reader: FieldReader, field: MutableField) => T,
    place: (inner: number) => number = () => 0,
  ): T {
    const start = this.offset;
    const coded = this.take(name, length);
    const field = this.#last as MutableField;
    const bytes = this.#attempt(() => decode(coded), start);
    field.bytes = bytes;
    try {
      return read(new FieldReader(this.report, bytes, field.children), field);
    } catch (error) {
      if (error instanceof Fault) throw new Fault(error.error, start + place(error.offset));
      throw error;
    }
  }

  /** @param offset of the fault. @default here */
  fail(code: ErrorCode, message: string, offset = this.offset): never {
    throw new Fault(new ProtocolError(code, message), offset);
  }

  /** Runs a decoder; if it throws, that is a fault at `offset`. */
  check<T>(decode: () => T, offset = this.offset): T {
    return this.#attempt(decode, offset);
  }

  /** Like {@link check}, but returns `undefined` if a codec or a vocabulary has to be loaded first. */
  checkLoaded<T>(what: LoadableCodec | EncodingName, decode: () => T, offset = this.offset): T | undefined {
    try {
      return decode();
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      if (error.code !== 'codec_not_loaded' && error.code !== 'vocabulary_not_loaded')
        throw new Fault(error, offset);
      this.report.missing.add(what);
      return undefined;
    }
  }

  /** The last field of this name. */
  find(name: string): MutableField | undefined {
    return findField(this.#root, name);
  }

  /** Offset of the last field of this name. */
  locate(name: string): number | undefined {
    return this.find(name)?.offset;
  }

  /** @throws {Fault} `trailing_bytes` if any bytes are left. */
  expectEnd(what: string): void {
    this.check(() => this.#reader.expectEnd(what));
  }

  #number(name: string, read: () => number): number {
    const offset = this.offset;
    const value = this.#attempt(read);
    this.#push(name, offset).value = value;
    return value;
  }

  #push(name: string, offset: number): MutableField {
    this.#last = this.report.add(this.#into, name, offset, this.offset - offset);
    return this.#last;
  }

  #attempt<T>(read: () => T, offset = this.offset): T {
    try {
      return read();
    } catch (error) {
      throw error instanceof ProtocolError ? new Fault(error, offset) : error;
    }
  }
}
