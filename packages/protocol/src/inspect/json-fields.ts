import type { FieldReader } from './field-reader.js';
import { gather, type NoteOf, writeText } from './msgpack-fields.js';
import { type MutableField, shortened } from './report.js';
import { isSecretName, REDACTED } from './secrets.js';

/**
 * The members of a JSON object, each with its place, as `msgpack-fields.ts` does for MessagePack: the
 * decoder of the message says whether it is right, this says where it is not.
 */

interface Walk {
  readonly reader: FieldReader;
  readonly maxDepth: number;
  readonly noteOf: NoteOf;
}

const DEEPEST = 200;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;

/** Reads one object, whitespace around it included. */
export function readJsonObject(reader: FieldReader, maxDepth: number, noteOf: NoteOf): void {
  const walk = { reader, maxDepth: Math.min(maxDepth, DEEPEST), noteOf };
  skipSpace(reader);
  if (peek(reader) !== OPEN_BRACE) reader.fail('bad_message', 'an object was expected');
  readObject(walk, [], 1);
  skipSpace(reader);
  if (reader.remaining > 0) reader.fail('bad_json', 'something follows the end of the object');
}

function readObject(walk: Walk, path: readonly string[], depth: number): void {
  const { reader } = walk;
  enter(walk, depth);
  if (accept(reader, CLOSE_BRACE)) return;
  for (;;) {
    if (reader.report.isFull) return reader.skip(reader.remaining);
    skipSpace(reader);
    reader.group('member', (field) => {
      const key = readString(reader);
      field.name = shortened(key, 80);
      expect(reader, COLON, 'a colon');
      skipSpace(reader);
      readNamed(walk, field, [...path, key], depth);
    });
    if (accept(reader, CLOSE_BRACE)) return;
    expect(reader, COMMA, 'a comma or the end of the object');
  }
}

function readNamed(walk: Walk, field: MutableField, path: readonly string[], depth: number): void {
  if (!isSecretName(path.at(-1) ?? '')) {
    readValue(walk, field, path, depth);
    field.note ??= walk.noteOf(path, field.value);
    return;
  }
  field.isSecret = true;
  field.note = 'a credential: never shown';
  try {
    readValue(walk, field, path, depth);
  } finally {
    field.children.length = 0;
    field.value = REDACTED;
  }
}

function readValue(walk: Walk, field: MutableField, path: readonly string[], depth: number): void {
  const { reader } = walk;
  skipSpace(reader);
  switch (peek(reader)) {
    case OPEN_BRACE:
      return readObject(walk, path, depth + 1);
    case OPEN_BRACKET:
      return readArray(walk, field, path, depth + 1);
    case QUOTE:
      writeText(field, readString(reader));
      return;
    default:
      field.value = readScalar(reader);
  }
}

function readArray(walk: Walk, field: MutableField, path: readonly string[], depth: number): void {
  const { reader } = walk;
  enter(walk, depth);
  const values: (string | undefined)[] = [];
  if (!accept(reader, CLOSE_BRACKET)) {
    do {
      if (reader.report.isFull) return reader.skip(reader.remaining);
      skipSpace(reader);
      reader.group(`${values.length + 1}`, (item) => {
        readValue(walk, item, path, depth);
        values.push(item.children.length > 0 || item.value === undefined ? undefined : String(item.value));
      });
    } while (accept(reader, COMMA));
    expect(reader, CLOSE_BRACKET, 'a comma or the end of the list');
  }
  gather(field, values);
}

/** Behind the bracket or brace that begins a list or an object. */
function enter({ reader, maxDepth }: Walk, depth: number): void {
  if (depth > maxDepth) reader.fail('json_too_deep', `nested more than ${maxDepth} levels deep`);
  reader.skip(1);
}

function readString(reader: FieldReader): string {
  if (peek(reader) !== QUOTE) return reader.fail('bad_json', 'a string was expected');
  const { bytes, offset } = reader;
  let end = offset + 1;
  while (end < bytes.length && bytes[end] !== QUOTE) end += bytes[end] === BACKSLASH ? 2 : 1;
  if (end >= bytes.length) return reader.fail('bad_json', 'a string has no end');
  const source = reader.readText(end + 1 - offset);
  return parsed(reader, source, offset) as string;
}

function readScalar(reader: FieldReader): number | boolean | null {
  const { bytes, offset } = reader;
  let end = offset;
  while (end < bytes.length && isScalarByte(bytes[end] as number)) end++;
  if (end === offset) return reader.fail('bad_json', 'a value was expected');
  return parsed(reader, reader.readText(end - offset), offset) as number | boolean | null;
}

function parsed(reader: FieldReader, source: string, offset: number): unknown {
  try {
    return JSON.parse(source);
  } catch {
    return reader.fail('bad_json', 'neither a string, a number, true, false nor null', offset);
  }
}

/** Letters, digits and what numbers are made of. */
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
  if (!accept(reader, byte)) reader.fail('bad_json', `${what} was expected`);
}

function skipSpace(reader: FieldReader): void {
  const { bytes, offset } = reader;
  let at = offset;
  for (let byte = bytes[at]; byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09; )
    byte = bytes[++at];
  reader.skip(at - offset);
}
