import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import { toProtocolError } from '../base/errors.js';
import { decodeUtf8 } from '../base/text.js';
import { AVP_MODES, MetadataField, PAYLOAD_TYPES } from '../codec/avp/metadata.js';
import { DTYPES } from '../codec/avp/tensor.js';
import type { FieldReader } from './field-reader.js';
import { Fault, truncate } from './report.js';
import { hex } from './wording.js';

/** Field names as in the format document. */
const NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries(MetadataField).map(([name, field]) => [field, name.toLowerCase()]),
);

const ENUMS = new Map<number, readonly string[]>([
  [MetadataField.PAYLOAD_TYPE, Object.keys(PAYLOAD_TYPES)],
  [MetadataField.DTYPE, Object.keys(DTYPES)],
  [MetadataField.MODE, Object.keys(AVP_MODES)],
]);

const TEXTS: ReadonlySet<number> = new Set([
  MetadataField.SESSION_ID,
  MetadataField.SOURCE_AGENT_ID,
  MetadataField.TARGET_AGENT_ID,
  MetadataField.MODEL_ID,
  MetadataField.COMPRESSION,
  MetadataField.AVP_MAP_ID,
]);

const NOTES = new Map<number, string>([
  [MetadataField.SOURCE_AGENT_ID, 'the sender'],
  [MetadataField.TARGET_AGENT_ID, 'the receiver'],
  [MetadataField.MODEL_ID, 'the model that produced it'],
  [MetadataField.HIDDEN_DIM, 'width of a hidden state'],
  [MetadataField.NUM_LAYERS, 'layers of the model'],
  [MetadataField.PAYLOAD_TYPE, 'what the tensor holds'],
  [MetadataField.DTYPE, 'element type'],
  [MetadataField.TENSOR_SHAPE, 'dimensions, outermost first'],
  [MetadataField.AVP_MAP_ID, 'projection into another model'],
  [MetadataField.EXTRA, 'key and value added by the sender'],
  [MetadataField.PAYLOAD_CHECKSUM, 'CRC-32 of the tensor before compression'],
]);

/** Reads the Protocol Buffers message that is left; a fault is at the beginning of the damaged field. */
export function readAvpMetadata(reader: FieldReader): void {
  while (reader.remaining > 0) {
    if (reader.report.isFull) return reader.skip(reader.remaining);
    const at = reader.offset;
    const proto = new BinaryReader(reader.rest, decodeUtf8);
    const { name, value, note } = described(() => readField(proto), at);
    reader.take(name, proto.pos);
    reader.annotate(value, note);
  }
}

interface MetadataEntry {
  readonly name: string;
  readonly value: string | number | undefined;
  readonly note?: string | undefined;
}

function described(read: () => MetadataEntry, at: number): MetadataEntry {
  try {
    return read();
  } catch (error) {
    throw new Fault(
      toProtocolError(error, 'bad_message', 'AVP metadata are not a Protocol Buffers message'),
      at,
    );
  }
}

function readField(proto: BinaryReader): MetadataEntry {
  const [field, wireType] = proto.tag();
  const name = NAMES.get(field);
  const note = NOTES.get(field);
  if (wireType === WireType.LengthDelimited && TEXTS.has(field)) {
    return { name: name as string, value: truncate(proto.string()), note };
  }
  if (wireType === WireType.LengthDelimited && field === MetadataField.TENSOR_SHAPE) {
    return { name: name as string, value: shapeOf(proto.bytes()), note };
  }
  if (wireType === WireType.LengthDelimited && field === MetadataField.EXTRA) {
    return { name: name as string, value: entryOf(proto.bytes()), note };
  }
  if (wireType === WireType.Varint && name !== undefined && !TEXTS.has(field)) {
    const value = proto.uint32();
    const names = ENUMS.get(field);
    if (names !== undefined) return { name, value: names[value] ?? `unknown (${value})`, note };
    return { name, value: field === MetadataField.PAYLOAD_CHECKSUM ? hex(value, 8) : value, note };
  }
  proto.skip(wireType, field);
  return { name: `field ${field}`, value: undefined, note: 'unknown to this version, passed on unchanged' };
}

/** The decoder refuses more. */
const MAX_DIMENSIONS = 65;

function shapeOf(packed: Uint8Array): string {
  const proto = new BinaryReader(packed);
  const shape: number[] = [];
  while (proto.pos < proto.len && shape.length < MAX_DIMENSIONS) shape.push(proto.uint32());
  return `[${shape.join(', ')}]`;
}

function entryOf(bytes: Uint8Array): string {
  const proto = new BinaryReader(bytes, decodeUtf8);
  let [key, value] = ['', ''];
  while (proto.pos < proto.len) {
    const [field, wireType] = proto.tag();
    if (wireType !== WireType.LengthDelimited) proto.skip(wireType, field);
    else if (field === 1) key = proto.string();
    else if (field === 2) value = proto.string();
    else proto.skip(wireType, field);
  }
  return truncate(`${key} = ${value}`);
}
