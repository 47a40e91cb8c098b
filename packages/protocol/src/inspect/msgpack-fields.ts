import type { FieldReader } from './field-reader.js';
import { gather, MapWalk, type NoteOf, writeText } from './map-fields.js';
import { type MutableField, truncate } from './report.js';
import { count } from './wording.js';

/**
 * The entries of a MessagePack map, each with its offset. The walk finds where the map is damaged; whether
 * it is valid is for the decoder of the message to decide.
 */

/** Reads one map, which must be everything that is left. */
export function readMsgpackMap(
  reader: FieldReader,
  maxDepth: number,
  noteOf: NoteOf = () => undefined,
): void {
  const head = readHead(reader);
  if (head.type !== 'map') reader.fail('bad_message', 'expected a map');
  reader.take('map', head.length);
  reader.note(count(head.size, 'entry').replace(/ys$/, 'ies'));
  new MsgpackWalk(reader, maxDepth, noteOf).entries(head.size, [], 1);
  reader.expectEnd('the map');
}

class MsgpackWalk extends MapWalk {
  entries(size: number, path: readonly string[], depth: number): void {
    const { reader } = this;
    this.checkDepth(depth);
    for (let i = 0; i < size; i++) {
      if (reader.report.isFull) return reader.skip(reader.remaining);
      reader.group('entry', (field) => {
        const key: MutableField = { name: '', offset: 0, length: 0, children: [] };
        this.value(key, [...path, ''], depth);
        field.name = truncate(String(key.value ?? 'entry'), 80);
        // The contents of a map or a list used as a key are of no use to a reader.
        field.children.length = 0;
        this.named(field, [...path, String(key.value ?? '')], depth);
      });
    }
  }

  protected override value(field: MutableField, path: readonly string[], depth: number): void {
    const { reader } = this;
    const { type, length, size } = readHead(reader);
    switch (type) {
      case 'map':
        reader.skip(length);
        return this.entries(size, path, depth + 1);
      case 'array':
        reader.skip(length);
        return this.#items(size, path, field, depth + 1);
      case 'string': {
        const start = reader.offset;
        reader.skip(length);
        writeText(field, reader.readText(size, start));
        return;
      }
      case 'bytes':
        reader.skip(length + size);
        field.note = count(size, 'byte');
        return;
      case 'extension':
        return reader.fail('bad_message', 'MessagePack extension types are not used in control messages');
      default:
        field.value = scalarAt(reader.bytes, reader.offset, length);
        reader.skip(length);
    }
  }

  #items(size: number, path: readonly string[], field: MutableField, depth: number): void {
    const { reader } = this;
    this.checkDepth(depth);
    const values: (string | undefined)[] = [];
    for (let i = 0; i < size; i++) {
      if (reader.report.isFull) return reader.skip(reader.remaining);
      this.item(values, path, depth);
    }
    gather(field, values);
  }
}

interface Head {
  readonly type: 'map' | 'array' | 'string' | 'bytes' | 'extension' | 'scalar';
  /** Bytes of the head; for a scalar, of the whole value. */
  readonly length: number;
  /** Entries, items or bytes after the head. */
  readonly size: number;
}

/** Heads from 0xc4 on: the type, and the bytes of its length or value. */
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

/** Decodes the next head without reading it. */
function readHead(reader: FieldReader): Head {
  const { bytes, offset } = reader;
  const byte = bytes[offset];
  if (byte === undefined) return reader.fail('bad_message', 'expected a value, found the end');
  if (byte >= 0x80 && byte <= 0x8f) return { type: 'map', length: 1, size: byte & 0x0f };
  if (byte >= 0x90 && byte <= 0x9f) return { type: 'array', length: 1, size: byte & 0x0f };
  if (byte >= 0xa0 && byte <= 0xbf) return { type: 'string', length: 1, size: byte & 0x1f };
  if (byte === 0xc1) return reader.fail('bad_message', 'the byte 0xc1 is not valid MessagePack');
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
  // The caller reports a truncated value when it skips it.
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
