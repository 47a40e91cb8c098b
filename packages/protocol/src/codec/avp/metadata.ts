import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import { concatBytes } from '../../base/bytes.js';
import { ProtocolError, toProtocolError } from '../../base/errors.js';
import { decodeUtf8 } from '../../base/text.js';
import { compareCodePoints } from './canonical-json.js';
import { FieldWriter } from './field-writer.js';
import { type Dtype, dtypeCode, dtypeOf, isUint32, MAX_RANK } from './tensor.js';

/**
 * The Protocol Buffers message between header and body (binary format document, "Metadata"). The mapping is
 * written by hand, so that the bytes are in the order of the reference, and unknown fields pass through.
 */

/** The kind of body. */
export const PAYLOAD_TYPES = { hidden_state: 0, kv_cache: 1 } as const;
export type PayloadType = keyof typeof PAYLOAD_TYPES;

/** How the sender and the receiver communicate; `json` frames carry text instead of a tensor. */
export const AVP_MODES = { latent: 0, json: 1 } as const;
export type AvpMode = keyof typeof AVP_MODES;

/** A sender's description of a tensor, besides its shape and type. */
export interface AvpMetadata {
  /** Session identifier from the handshake. @default '' */
  readonly sessionId: string;
  /** Sender. @default '' */
  readonly sourceAgentId: string;
  /** Recipient. @default '' */
  readonly targetAgentId: string;
  /** Model that produced the payload, for example `meta-llama/Llama-2-7b`. @default '' */
  readonly modelId: string;
  /** Width of a hidden state, for example 4096; a uint32. @default 0, unknown */
  readonly hiddenDim: number;
  /** Transformer layers; a uint32. @default 0, unknown */
  readonly numLayers: number;
  /** @default 'latent' */
  readonly mode: AvpMode;
  /** Cross-model projection map; empty between equal models. See `resolveCompatibility`. @default '' */
  readonly avpMapId: string;
  /** Extensible key-value pairs. @default none */
  readonly extra: ReadonlyMap<string, string>;
  /** Fields that this version does not know, as received. @default none */
  readonly unknownFields: Uint8Array;
}

/** All fields of the message. */
export interface MetadataFields {
  /** The fields that the sender may choose. */
  readonly metadata: AvpMetadata;
  readonly payloadType: PayloadType;
  readonly dtype: Dtype;
  /** Dimensions; empty if absent. */
  readonly shape: readonly number[];
  /** Name of the compression algorithm; empty if absent. */
  readonly compression: string;
  /** CRC-32 of the payload before compression. */
  readonly checksum: number | undefined;
}

/** The most bytes of metadata, in either direction. */
export const MAX_METADATA_SIZE = 64 * 1024;

const Field = {
  SESSION_ID: 1,
  SOURCE_AGENT_ID: 2,
  TARGET_AGENT_ID: 3,
  MODEL_ID: 4,
  HIDDEN_DIM: 5,
  NUM_LAYERS: 6,
  PAYLOAD_TYPE: 7,
  DTYPE: 8,
  TENSOR_SHAPE: 9,
  MODE: 10,
  COMPRESSION: 11,
  AVP_MAP_ID: 13,
  EXTRA: 14,
  PAYLOAD_CHECKSUM: 15,
} as const;

/** Numbers of the fields on the wire. */
export { Field as MetadataField };

const ENTRY_KEY = 1;
const ENTRY_VALUE = 2;
/** A varint of 64 bits. */
const MAX_VARINT_BYTES = 10;
const NOTHING = new Uint8Array(0);

/**
 * Writes fields in ascending order without those at their default, `extra` sorted by key, unknown fields
 * last.
 *
 * @returns a view that the next call overwrites.
 * @throws {ProtocolError} `invalid_argument`, `lone_surrogate`, `metadata_too_large`.
 */
export function encodeMetadata(fields: MetadataFields): Uint8Array {
  const { metadata } = fields;
  const unknown = checkedUnknown(metadata.unknownFields);
  writer.reset();
  writeText(Field.SESSION_ID, metadata.sessionId);
  writeText(Field.SOURCE_AGENT_ID, metadata.sourceAgentId);
  writeText(Field.TARGET_AGENT_ID, metadata.targetAgentId);
  writeText(Field.MODEL_ID, metadata.modelId);
  writeNumber(Field.HIDDEN_DIM, metadata.hiddenDim);
  writeNumber(Field.NUM_LAYERS, metadata.numLayers);
  writeNumber(Field.PAYLOAD_TYPE, codeOf(PAYLOAD_TYPES, fields.payloadType, 'payloadType'));
  writeNumber(Field.DTYPE, dtypeCode(fields.dtype));
  if (fields.shape.length > 0) {
    for (const dimension of fields.shape) checkUint32(Field.TENSOR_SHAPE, dimension);
    writer.packed(Field.TENSOR_SHAPE, fields.shape);
  }
  writeNumber(Field.MODE, codeOf(AVP_MODES, metadata.mode, 'mode'));
  writeText(Field.COMPRESSION, fields.compression);
  writeText(Field.AVP_MAP_ID, metadata.avpMapId);
  if (metadata.extra.size > 0) {
    // Any order is allowed; with a fixed one, equal messages have equal bytes.
    const entries = [...metadata.extra].sort(([a], [b]) => compareCodePoints(a, b));
    for (const [key, value] of entries) {
      checkText(Field.EXTRA, key);
      checkText(Field.EXTRA, value);
      writer.entry(Field.EXTRA, key, value);
    }
  }
  if (fields.checksum !== undefined) {
    checkUint32(Field.PAYLOAD_CHECKSUM, fields.checksum);
    writer.uint32(Field.PAYLOAD_CHECKSUM, fields.checksum);
  }
  writer.raw(unknown);
  const bytes = writer.written();
  if (bytes.length > MAX_METADATA_SIZE) throw tooLarge(bytes.length);
  return bytes;
}

const writer = new FieldWriter(MAX_METADATA_SIZE, tooLarge);

/**
 * Reads the output of {@link encodeMetadata} or of any Protocol Buffers runtime. If a single field is
 * repeated, the last one counts. A known field with another wire type counts as unknown.
 *
 * @throws {ProtocolError} `bad_message` for malformed bytes and unknown enum values, `bad_utf8`,
 * `bad_tensor` for a shape of too many dimensions, `metadata_too_large`.
 */
export function decodeMetadata(bytes: Uint8Array): MetadataFields {
  if (bytes.length > MAX_METADATA_SIZE) throw tooLarge(bytes.length);
  try {
    return readFields(new Reader(bytes), bytes);
  } catch (error) {
    throw toProtocolError(error, 'bad_message', 'AVP metadata are not a Protocol Buffers message');
  }
}

function readFields(reader: BinaryReader, bytes: Uint8Array): MetadataFields {
  let sessionId = '';
  let sourceAgentId = '';
  let targetAgentId = '';
  let modelId = '';
  let hiddenDim = 0;
  let numLayers = 0;
  let payloadType = 0;
  let dtype = 0;
  const shape: number[] = [];
  let mode = 0;
  let compression = '';
  let avpMapId = '';
  const extra = new Map<string, string>();
  let checksum: number | undefined;
  const unknown: Uint8Array[] = [];

  while (reader.pos < reader.len) {
    const start = reader.pos;
    const [field, wireType] = reader.tag();
    // Field and wire type in one number, as on the wire.
    switch ((field << 3) | wireType) {
      case (Field.SESSION_ID << 3) | WireType.LengthDelimited:
        sessionId = reader.string();
        break;
      case (Field.SOURCE_AGENT_ID << 3) | WireType.LengthDelimited:
        sourceAgentId = reader.string();
        break;
      case (Field.TARGET_AGENT_ID << 3) | WireType.LengthDelimited:
        targetAgentId = reader.string();
        break;
      case (Field.MODEL_ID << 3) | WireType.LengthDelimited:
        modelId = reader.string();
        break;
      case (Field.HIDDEN_DIM << 3) | WireType.Varint:
        hiddenDim = reader.uint32();
        break;
      case (Field.NUM_LAYERS << 3) | WireType.Varint:
        numLayers = reader.uint32();
        break;
      case (Field.PAYLOAD_TYPE << 3) | WireType.Varint:
        payloadType = reader.int32();
        break;
      case (Field.DTYPE << 3) | WireType.Varint:
        dtype = reader.int32();
        break;
      case (Field.TENSOR_SHAPE << 3) | WireType.LengthDelimited:
        for (const packed = sub(reader); packed.pos < packed.len; ) addDimension(shape, packed.uint32());
        break;
      case (Field.TENSOR_SHAPE << 3) | WireType.Varint:
        addDimension(shape, reader.uint32());
        break;
      case (Field.MODE << 3) | WireType.Varint:
        mode = reader.int32();
        break;
      case (Field.COMPRESSION << 3) | WireType.LengthDelimited:
        compression = reader.string();
        break;
      case (Field.AVP_MAP_ID << 3) | WireType.LengthDelimited:
        avpMapId = reader.string();
        break;
      case (Field.EXTRA << 3) | WireType.LengthDelimited:
        readEntry(sub(reader), extra);
        break;
      case (Field.PAYLOAD_CHECKSUM << 3) | WireType.Varint:
        checksum = reader.uint32();
        break;
      default:
        skip(reader, field, wireType);
        unknown.push(bytes.subarray(start, reader.pos));
    }
  }
  return {
    metadata: {
      sessionId,
      sourceAgentId,
      targetAgentId,
      modelId,
      hiddenDim,
      numLayers,
      mode: nameOf(AVP_MODES, mode, 'mode'),
      avpMapId,
      extra,
      unknownFields: unknown.length === 0 ? NOTHING : concatBytes(unknown),
    },
    payloadType: nameOf(PAYLOAD_TYPES, payloadType, 'payload_type'),
    dtype: dtypeOf(dtype) ?? unknownValue('dtype', dtype),
    shape,
    compression,
    checksum,
  };
}

/** The library cuts a longer length to 32 bits, and would read other bytes than the writer meant. */
class Reader extends BinaryReader {
  readonly #bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    super(bytes, decodeUtf8);
    this.#bytes = bytes;
  }

  override tag(): [number, WireType] {
    const tag = super.tag();
    if (tag[1] === WireType.LengthDelimited && this.#isLong()) {
      throw new ProtocolError('bad_message', 'AVP metadata state a length of more than 32 bits');
    }
    return tag;
  }

  #isLong(): boolean {
    let beyond = 0;
    let byte = 0x80;
    for (let at = this.pos; at < this.len && (byte & 0x80) !== 0; at++) {
      byte = this.#bytes[at] as number;
      if (at >= this.pos + 4) beyond |= at === this.pos + 4 ? byte & 0x70 : byte & 0x7f;
    }
    return beyond !== 0;
  }
}

/** A reader over the next length-delimited field. */
function sub(reader: BinaryReader): BinaryReader {
  return new Reader(reader.bytes());
}

function readEntry(reader: BinaryReader, into: Map<string, string>): void {
  let key = '';
  let value = '';
  while (reader.pos < reader.len) {
    const [field, wireType] = reader.tag();
    if (field === ENTRY_KEY && wireType === WireType.LengthDelimited) key = reader.string();
    else if (field === ENTRY_VALUE && wireType === WireType.LengthDelimited) value = reader.string();
    else skip(reader, field, wireType);
  }
  into.set(key, value);
}

function skip(reader: BinaryReader, field: number, wireType: WireType): void {
  const skipped = reader.skip(wireType, field);
  if (wireType === WireType.Varint && skipped.length > MAX_VARINT_BYTES) {
    throw new ProtocolError('bad_message', `field ${field} of the AVP metadata is an endless varint`);
  }
}

function addDimension(shape: number[], dimension: number): void {
  if (shape.length === MAX_RANK) {
    throw new ProtocolError('bad_tensor', `a shape has at most ${MAX_RANK} dimensions`);
  }
  shape.push(dimension);
}

function writeText(field: number, text: string): void {
  checkText(field, text);
  if (text !== '') writer.text(field, text);
}

function checkText(field: number, text: string): void {
  if (typeof text === 'string') return;
  throw new ProtocolError('invalid_argument', `field ${field} of the AVP metadata must be a string`);
}

function writeNumber(field: number, value: number): void {
  checkUint32(field, value);
  if (value !== 0) writer.uint32(field, value);
}

function checkUint32(field: number, value: number): void {
  if (isUint32(value)) return;
  throw new ProtocolError(
    'invalid_argument',
    `field ${field} of the AVP metadata must be a whole number below 2^32, not ${String(value)}`,
  );
}

/** Refuses known fields among the unknown ones: they would override fields that were checked. */
function checkedUnknown(bytes: Uint8Array): Uint8Array {
  if (bytes.length === 0) return bytes;
  if (decodeMetadata(bytes).metadata.unknownFields.length === bytes.length) return bytes;
  throw new ProtocolError('invalid_argument', 'unknownFields must not hold known fields');
}

function codeOf<Name extends string>(
  table: Readonly<Record<Name, number>>,
  name: Name,
  what: string,
): number {
  if (Object.hasOwn(table, name)) return table[name];
  throw new ProtocolError(
    'invalid_argument',
    `${what} must be one of ${Object.keys(table).join(', ')}, not ${String(name)}`,
  );
}

function nameOf<Name extends string>(
  table: Readonly<Record<Name, number>>,
  code: number,
  what: string,
): Name {
  // Both tables are written in the order of their codes, which count from zero.
  return (Object.keys(table) as Name[])[code] ?? unknownValue(what, code);
}

function unknownValue(what: string, value: number): never {
  throw new ProtocolError('bad_message', `${what} ${value} of the AVP metadata is unknown`);
}

function tooLarge(length: number): ProtocolError {
  return new ProtocolError(
    'metadata_too_large',
    `AVP metadata take at most ${MAX_METADATA_SIZE} bytes, not ${length}`,
  );
}
