import type { FieldReader } from './field-reader.js';
import { gather, MapWalk, type NoteOf, writeText } from './map-fields.js';
import { type MutableField, truncate } from './report.js';

/**
 * The members of a JSON object, each with its offset. The walk finds where the object is damaged; whether
 * it is valid is for the decoder of the message to decide.
 */

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;

/** Reads one object and the whitespace around it. */
export function readJsonObject(reader: FieldReader, maxDepth: number, noteOf: NoteOf): void {
  skipSpace(reader);
  if (peek(reader) !== OPEN_BRACE) reader.fail('bad_message', 'expected an object');
  new JsonWalk(reader, maxDepth, noteOf).object([], 1);
  skipSpace(reader);
  if (reader.remaining > 0) reader.fail('bad_json', 'unexpected text after the object');
}

class JsonWalk extends MapWalk {
  object(path: readonly string[], depth: number): void {
    const { reader } = this;
    this.#enter(depth);
    if (accept(reader, CLOSE_BRACE)) return;
    for (;;) {
      if (reader.report.isFull) return reader.skip(reader.remaining);
      skipSpace(reader);
      reader.group('member', (field) => {
        const key = readString(reader);
        field.name = truncate(key, 80);
        expect(reader, COLON, 'a colon');
        skipSpace(reader);
        this.named(field, [...path, key], depth);
      });
      if (accept(reader, CLOSE_BRACE)) return;
      expect(reader, COMMA, 'a comma or the end of the object');
    }
  }

  protected override value(field: MutableField, path: readonly string[], depth: number): void {
    const { reader } = this;
    skipSpace(reader);
    switch (peek(reader)) {
      case OPEN_BRACE:
        return this.object(path, depth + 1);
      case OPEN_BRACKET:
        return this.#array(field, path, depth + 1);
      case QUOTE:
        writeText(field, readString(reader));
        return;
      default:
        field.value = readScalar(reader);
    }
  }

  #array(field: MutableField, path: readonly string[], depth: number): void {
    const { reader } = this;
    this.#enter(depth);
    const values: (string | undefined)[] = [];
    if (!accept(reader, CLOSE_BRACKET)) {
      do {
        if (reader.report.isFull) return reader.skip(reader.remaining);
        skipSpace(reader);
        this.item(values, path, depth);
      } while (accept(reader, COMMA));
      expect(reader, CLOSE_BRACKET, 'a comma or the end of the list');
    }
    gather(field, values);
  }

  /** Skips the bracket or brace that begins a list or an object. */
  #enter(depth: number): void {
    this.checkDepth(depth);
    this.reader.skip(1);
  }
}

function readString(reader: FieldReader): string {
  if (peek(reader) !== QUOTE) return reader.fail('bad_json', 'expected a string');
  const { bytes, offset } = reader;
  let end = offset + 1;
  while (end < bytes.length && bytes[end] !== QUOTE) end += bytes[end] === BACKSLASH ? 2 : 1;
  if (end >= bytes.length) return reader.fail('bad_json', 'unterminated string');
  const source = reader.readText(end + 1 - offset);
  return parsed(reader, source, offset) as string;
}

function readScalar(reader: FieldReader): number | boolean | null {
  const { bytes, offset } = reader;
  let end = offset;
  while (end < bytes.length && isScalarByte(bytes[end] as number)) end++;
  if (end === offset) return reader.fail('bad_json', 'expected a value');
  return parsed(reader, reader.readText(end - offset), offset) as number | boolean | null;
}

function parsed(reader: FieldReader, source: string, offset: number): unknown {
  try {
    return JSON.parse(source);
  } catch {
    return reader.fail('bad_json', 'expected a string, a number, true, false or null', offset);
  }
}

/** Digits, lower-case letters, and `E`, `+`, `-`, `.`, which occur in numbers. */
function isScalarByte(byte: number): boolean {
  return (
    (byte >= 0x30 && byte <= 0x39) ||
    (byte >= 0x61 && byte <= 0x7a) ||
    byte === 0x45 ||
    byte === 0x2b ||
    byte === 0x2d ||
    byte === 0x2e
  );
}

function peek(reader: FieldReader): number | undefined {
  return reader.bytes[reader.offset];
}

function accept(reader: FieldReader, byte: number): boolean {
  skipSpace(reader);
  if (peek(reader) !== byte) return false;
  reader.skip(1);
  return true;
}

function expect(reader: FieldReader, byte: number, what: string): void {
  if (!accept(reader, byte)) reader.fail('bad_json', `expected ${what}`);
}

function skipSpace(reader: FieldReader): void {
  const { bytes, offset } = reader;
  let at = offset;
  for (let byte = bytes[at]; byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09; )
    byte = bytes[++at];
  reader.skip(at - offset);
}
