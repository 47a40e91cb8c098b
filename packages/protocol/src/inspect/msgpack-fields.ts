import type { FieldReader } from './field-reader.js';
import { type MutableField, shortened } from './report.js';
import { isSecretName, REDACTED, withoutSecrets } from './secrets.js';
import { count } from './wording.js';

/**
 * The entries of a MessagePack map, each with its place. What is wrong in it is found here to know
 * where; whether it is wrong is for the decoder of the message to say.
 */

/** What the entry at a path means, for people. */
export type NoteOf = (path: readonly string[], value: MutableField['value']) => string | undefined;

interface Walk {
  readonly reader: FieldReader;
  readonly maxDepth: number;
  readonly noteOf: NoteOf;
}

/** The walk is recursive; no limit that somebody chooses shall exhaust the stack. */
const DEEPEST = 200;

/** Reads one map and writes its entries down. */
export function readMsgpackMap(
  reader: FieldReader,
  maxDepth: number,
  noteOf: NoteOf = () => undefined,
): void {
  const head = readHead(reader);
  if (head.type !== 'map') reader.fail('bad_message', 'a map was expected');
  const walk = { reader, maxDepth: Math.min(maxDepth, DEEPEST), noteOf };
  reader.take('map', head.length);
  reader.say(undefined, count(head.size, 'entry').replace(/ys$/, 'ies'));
  readEntries(walk, head, [], 1);
  reader.expectEnd('the map');
}

function readEntries(walk: Walk, { size }: Head, path: readonly string[], depth: number): void {
  const { reader } = walk;
  if (depth > walk.maxDepth) reader.fail('json_too_deep', `nested more than ${walk.maxDepth} levels deep`);
  for (let i = 0; i < size; i++) {
    if (reader.report.isFull) return leaveOut(reader);
    reader.group('entry', (field) => {
      const key: MutableField = { name: '', offset: 0, length: 0, children: [] };
      readValue(walk, key, [...path, ''], depth);
      field.name = shortened(String(key.value ?? 'entry'), 80);
      // What a map or a list as a key holds is of no use to anybody.
      field.children.length = 0;
      const inner = [...path, String(key.value ?? '')];
      readNamed(walk, field, inner, depth);
    });
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
  const head = readHead(reader);
  switch (head.type) {
    case 'map':
      reader.skip(head.length);
      return readEntries(walk, head, path, depth + 1);
    case 'array':
      reader.skip(head.length);
      return readItems(walk, head, path, field, depth + 1);
    case 'string': {
      const start = reader.offset;
      reader.skip(head.length);
      writeText(field, reader.readText(head.size, start));
      return;
    }
    case 'bytes':
      reader.skip(head.length + head.size);
      field.note = count(head.size, 'byte');
      return;
    case 'extension':
      return reader.fail('bad_message', 'MessagePack extension types are not used in control messages');
    default:
      field.value = scalarAt(reader.bytes, reader.offset, head.length);
      reader.skip(head.length);
  }
}

function readItems(
  walk: Walk,
  head: Head,
  path: readonly string[],
  field: MutableField,
  depth: number,
): void {
  const { reader } = walk;
  if (depth > walk.maxDepth) reader.fail('json_too_deep', `nested more than ${walk.maxDepth} levels deep`);
  const values: (string | undefined)[] = [];
  for (let i = 0; i < head.size; i++) {
    if (reader.report.isFull) return leaveOut(reader);
    reader.group(`${i + 1}`, (item) => {
      readValue(walk, item, path, depth);
      values.push(item.children.length > 0 || item.value === undefined ? undefined : String(item.value));
    });
  }
  gather(field, values);
}

/** A text as the value of a field, without what it may hold of credentials. */
export function writeText(field: MutableField, text: string): void {
  const shown = withoutSecrets(text);
  field.value = shortened(shown);
  if (shown === text) return;
  field.isSecret = true;
  field.note = 'its user and its query may be credentials: never shown';
}

/** A list of plain values is read more easily in one line. */
export function gather(field: MutableField, values: readonly (string | undefined)[]): void {
  if (values.includes(undefined)) return;
  if (field.children.some(({ isSecret }) => isSecret)) field.isSecret = true;
  const line = values.length === 0 ? 'none' : values.join(', ');
  field.value = shortened(line);
  if (field.value === line) field.children.length = 0;
}

function leaveOut(reader: FieldReader): void {
  reader.skip(reader.remaining);
}

interface Head {
  readonly type: 'map' | 'array' | 'string' | 'bytes' | 'extension' | 'scalar';
  /** Bytes of the head; of a scalar all of it. */
  readonly length: number;
  /** Entries, items, or bytes behind the head. */
  readonly size: number;
}

/** Heads from 0xc4 on: what they begin, and the bytes of its length or value. */
const LONG_HEADS: readonly (readonly [Head['type'], number])[] = [
  ...([1, 2, 4] as const).map((width) => ['bytes', width] as const),
  ...([1, 2, 4] as const).map((width) => ['extension', width] as const),
  ...([4, 8, 1, 2, 4, 8, 1, 2, 4, 8] as const).map((width) => ['scalar', width] as const),
  ...([0, 0, 0, 0, 0] as const).map((width) => ['extension', width] as const),
  ...([1, 2, 4] as const).map((width) => ['string', width] as const),
  ...([2, 4] as const).map((width) => ['array', width] as const),
  ...([2, 4] as const).map((width) => ['map', width] as const),
];
const FIRST_LONG = 0xc4;

/** Looks at what begins here without reading it. */
function readHead(reader: FieldReader): Head {
  const { bytes, offset } = reader;
  const byte = bytes[offset];
  if (byte === undefined) return reader.fail('bad_message', 'a value was expected and nothing is left');
  if (byte >= 0x80 && byte <= 0x8f) return { type: 'map', length: 1, size: byte & 0x0f };
  if (byte >= 0x90 && byte <= 0x9f) return { type: 'array', length: 1, size: byte & 0x0f };
  if (byte >= 0xa0 && byte <= 0xbf) return { type: 'string', length: 1, size: byte & 0x1f };
  if (byte === 0xc1) return reader.fail('bad_message', 'the byte 0xc1 means nothing');
  const [type, width] = LONG_HEADS[byte - FIRST_LONG] ?? ['scalar', 0];
  if (byte >= 0xe0 || type === 'scalar')
    return { type: 'scalar', length: 1 + (byte >= 0xe0 ? 0 : width), size: 0 };
  let size = 0;
  for (let at = offset + 1; at <= offset + width; at++) size = size * 0x100 + (bytes[at] ?? 0);
  return { type, length: 1 + width, size };
}

function scalarAt(bytes: Uint8Array, at: number, length: number): number | boolean | null {
  const byte = bytes[at] as number;
  if (byte <= 0x7f) return byte;
  if (byte >= 0xe0) return byte - 0x100;
  if (byte === 0xc0) return null;
  if (byte === 0xc2 || byte === 0xc3) return byte === 0xc3;
  // A value that is cut off is reported where it is passed over.
  if (at + length > bytes.length) return null;
  const view = new DataView(bytes.buffer, bytes.byteOffset + at + 1, length - 1);
  switch (byte) {
    case 0xca:
      return view.getFloat32(0);
    case 0xcb:
      return view.getFloat64(0);
    case 0xcf:
      return Number(view.getBigUint64(0));
    case 0xd3:
      return Number(view.getBigInt64(0));
    case 0xd0:
      return view.getInt8(0);
    case 0xd1:
      return view.getInt16(0);
    case 0xd2:
      return view.getInt32(0);
    default: {
      let value = 0;
      for (let i = 0; i < view.byteLength; i++) value = value * 0x100 + view.getUint8(i);
      return value;
    }
  }
}
