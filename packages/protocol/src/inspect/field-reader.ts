import { ByteReader } from '../base/bytes.js';
import type { EncodingName } from '../base/constants.js';
import { type ErrorCode, ProtocolError } from '../base/errors.js';
import { decodeUtf8 } from '../base/text.js';
import type { LoadableCodec } from '../codec/load.js';
import type { FieldValue } from './explanation.js';
import { Fault, findField, type MutableField, type Report, shortened } from './report.js';

/**
 * Reads a frame from front to back and writes down what each piece was. Whatever was read before a
 * fault stays written down.
 */
export class FieldReader {
  readonly report: Report;
  /** The bytes up to the end of what is read here. */
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

  /** Everything that is left, without reading it. */
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
    this.#push(name, offset).value = shortened(text);
    return text;
  }

  /**
   * Reads UTF-8 without writing it down.
   *
   * @param place where a fault is reported. @default here
   */
  readText(length: number, place = this.offset): string {
    return this.#attempt(() => decodeUtf8(this.#reader.take(length, 'a text')), place);
  }

  /** Passes bytes over without writing them down. */
  skip(length: number): void {
    this.#attempt(() => this.#reader.take(length, 'the frame'));
  }

  /** Says of the field that was read last what its value means. */
  say(value: FieldValue | undefined, note?: string): this {
    if (this.#last === undefined) return this;
    if (value !== undefined) this.#last.value = value;
    if (note !== undefined) this.#last.note = note;
    return this;
  }

  /** Nobody shall see the bytes of the field that was read last. */
  withhold(): void {
    if (this.#last !== undefined) this.#last.isSecret = true;
  }

  /** A field whose pieces are its children; it reaches as far as they do. */
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

  /** The next `length` bytes, read by a reader of their own that ends with them. */
  within<T>(name: string, length: number, read: (reader: FieldReader) => T): T {
    const start = this.offset;
    this.take(name, length);
    const field = this.#last as MutableField;
    const inner = new FieldReader(this.report, this.bytes.subarray(0, start + length), field.children);
    inner.skip(start);
    return read(inner);
  }

  /**
   * The next `length` bytes, which stand for other bytes, with the pieces of those as children.
   *
   * @param place where in the `length` bytes an offset in the others lies. @default their beginning
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

  /** Reports a fault. @param offset where. @default here */
  fail(code: ErrorCode, message: string, offset = this.offset): never {
    throw new Fault(new ProtocolError(code, message), offset);
  }

  /** Runs a decoder, whose refusal is a fault at `offset`. */
  check<T>(decode: () => T, offset = this.offset): T {
    return this.#attempt(decode, offset);
  }

  /** As {@link check}; `undefined` where a codec or a vocabulary has to be loaded first. */
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

  /** The field of this name that was read last. */
  find(name: string): MutableField | undefined {
    return findField(this.#root, name);
  }

  /** Where it begins. */
  locate(name: string): number | undefined {
    return this.find(name)?.offset;
  }

  /** Nothing may follow. */
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
