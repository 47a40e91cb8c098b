import { ByteReader, ByteWriter } from '../../base/bytes.js';
import { ProtocolError } from '../../base/errors.js';
import { decodeUtf8, encodeUtf8 } from '../../base/text.js';
import {
  CommonFlag,
  type FinishReason,
  type FixedHeader,
  type M2MFields,
  type M2MHeader,
  type M2MSchema,
  type M2MSecurityMode,
  type RequestFields,
  RequestFlag,
  type ResponseFields,
  ResponseFlag,
  ROLES,
  type Role,
} from './fields.js';

/**
 * The readable part of an M2M v1 frame: 20 fixed bytes, then fields that depend on the schema (wire document,
 * sections 3.3.2 and 3.3.3). All integers are little-endian, and the reader checks all lengths and counts
 * against `header_len` before it reads or allocates anything.
 *
 *     header_len:2 schema:1 security:1 flags:4 reserved:12
 *     request   model:u8+n  msg_count:varint  roles:2 bits each  content_hint:varint
 *               [max_tokens:varint]  [cost:f32]
 *     response  id:u8+n  model:u8+n  finish:1  prompt:varint  completion:varint
 *               [cached:varint]  [reasoning:varint]  [cost:f32]
 */

export type { M2MHeader } from './fields.js';

const FIXED_LENGTH = 20;
const FLAGS_OFFSET = 4;
const RESERVED_OFFSET = 8;
const SECURITY_OFFSET = 3;
const MAX_HEADER_LENGTH = 0xffff;
const MAX_STRING = 0xff;
const MAX_U32 = 0xffffffff;
const UNKNOWN_FINISH = 0xff;

const SCHEMA_BYTES = {
  request: 0x01,
  response: 0x02,
  stream: 0x03,
  error: 0x10,
  'embedding-request': 0x11,
  'embedding-response': 0x12,
  custom: 0xfe,
} as const satisfies Record<M2MSchema, number>;

export const SCHEMAS = new Map<number, M2MSchema>([
  ...Object.entries(SCHEMA_BYTES).map(([schema, byte]) => [byte, schema as M2MSchema] as const),
  // The bytes that the reference implementation uses for embeddings, unlike the document.
  [0x04, 'embedding-request'],
  [0x05, 'embedding-response'],
]);

export const SECURITY_MODES = ['NONE', 'HMAC', 'AEAD'] as const satisfies readonly M2MSecurityMode[];
export const FINISH_REASONS: readonly FinishReason[] = ['stop', 'length', 'tool_calls', 'content_filter'];

const REQUEST_FLAGS = allOf(RequestFlag);
const RESPONSE_FLAGS = allOf(ResponseFlag);

function allOf(flags: Readonly<Record<string, number>>): number {
  return Object.values(flags).reduce((all, flag) => all | flag, 0);
}

/**
 * Writes a whole header.
 *
 * @param fields with {@link CommonFlag}s clear.
 * @throws {ProtocolError} `unrepresentable` if a model or id has more than 255 UTF-8 bytes, if a number is
 * not a u32, or if the header is longer than 65,535 bytes.
 */
export function encodeHeader(
  fields: M2MFields,
  security: M2MSecurityMode,
  compressed: boolean,
): Uint8Array<ArrayBuffer> {
  const writer = new ByteWriter(128)
    .u16(0) // header_len, filled in at the end
    .u8(SCHEMA_BYTES[fields.schema])
    .u8(SECURITY_MODES.indexOf(security))
    .u32(compressed ? fields.flags | CommonFlag.COMPRESSED : fields.flags)
    .u32(0) // reserved
    .u32(0)
    .u32(0);
  if ('roles' in fields) writeRequest(writer, fields);
  else if ('id' in fields) writeResponse(writer, fields);
  const header = writer.finish();
  if (header.length > MAX_HEADER_LENGTH) {
    throw new ProtocolError(
      'unrepresentable',
      `an M2M header of ${header.length} bytes is longer than ${MAX_HEADER_LENGTH}`,
    );
  }
  header[0] = header.length & 0xff;
  header[1] = header.length >> 8;
  return header;
}

function writeRequest(writer: ByteWriter, fields: RequestFields): void {
  writeString(writer, 'model', fields.model);
  writer.varint(fields.roles.length);
  let bits = 0;
  let count = 0;
  for (const role of fields.roles) {
    bits |= ROLES.indexOf(role) << (2 * (count % 4));
    if (++count % 4 === 0) {
      writer.u8(bits);
      bits = 0;
    }
  }
  if (count % 4 !== 0) writer.u8(bits);
  writeU32(writer, 'content_hint', fields.contentHint);
  if (fields.maxTokens !== undefined) writeU32(writer, 'max_tokens', fields.maxTokens);
  if (fields.cost !== undefined) writer.f32(fields.cost);
}

function writeResponse(writer: ByteWriter, fields: ResponseFields): void {
  writeString(writer, 'id', fields.id);
  writeString(writer, 'model', fields.model);
  const finish = FINISH_REASONS.indexOf(fields.finishReason);
  writer.u8(finish === -1 ? UNKNOWN_FINISH : finish);
  writeU32(writer, 'prompt_tokens', fields.promptTokens);
  writeU32(writer, 'completion_tokens', fields.completionTokens);
  if (fields.cachedTokens !== undefined) writeU32(writer, 'cached_tokens', fields.cachedTokens);
  if (fields.reasoningTokens !== undefined) writeU32(writer, 'reasoning_tokens', fields.reasoningTokens);
  if (fields.cost !== undefined) writer.f32(fields.cost);
}

function writeString(writer: ByteWriter, what: string, text: string): void {
  const bytes = encodeUtf8(text);
  if (bytes.length > MAX_STRING) {
    throw new ProtocolError(
      'unrepresentable',
      `${what} has ${bytes.length} bytes, but an M2M header carries at most ${MAX_STRING}; use another algorithm`,
    );
  }
  writer.u8(bytes.length).append(bytes);
}

function writeU32(writer: ByteWriter, what: string, value: number): void {
  if (value > MAX_U32) {
    throw new ProtocolError(
      'unrepresentable',
      `${what} is ${value}, but an M2M header carries at most ${MAX_U32}; use another algorithm`,
    );
  }
  writer.varint(value);
}

/**
 * Reads the fixed header of a frame's body, and checks that the body holds the whole header.
 *
 * @throws {ProtocolError} `truncated`, `bad_header`, `unknown_schema`, `unknown_security_mode`.
 */
export function readFixedHeader(body: Uint8Array): FixedHeader {
  if (body.length < FIXED_LENGTH) {
    throw new ProtocolError(
      'truncated',
      `an M2M header has at least ${FIXED_LENGTH} bytes, but the frame has ${body.length}`,
    );
  }
  const byte = (at: number) => body[at] as number;
  const headerLength = byte(0) | (byte(1) << 8);
  if (headerLength < FIXED_LENGTH) {
    throw bad(`declares a length of ${headerLength}, less than its ${FIXED_LENGTH} fixed bytes`);
  }
  if (headerLength > body.length) {
    throw new ProtocolError(
      'truncated',
      `an M2M header of ${headerLength} bytes is cut off after ${body.length}`,
    );
  }
  const schema = SCHEMAS.get(byte(2));
  if (schema === undefined) {
    throw new ProtocolError('unknown_schema', `0x${byte(2).toString(16)} is not an M2M schema`);
  }
  const security = SECURITY_MODES[byte(SECURITY_OFFSET)];
  if (security === undefined) {
    throw new ProtocolError(
      'unknown_security_mode',
      `0x${byte(SECURITY_OFFSET).toString(16)} is not an M2M security mode`,
    );
  }
  const flags =
    byte(FLAGS_OFFSET) |
    (byte(FLAGS_OFFSET + 1) << 8) |
    (byte(FLAGS_OFFSET + 2) << 16) |
    (byte(FLAGS_OFFSET + 3) << 24);
  return { schema, security, flags, headerLength };
}

/**
 * Reads a whole header from the start of a frame's body.
 *
 * @throws {ProtocolError} as {@link readFixedHeader}; `bad_header` if bytes follow the last field, or
 * reserved bits or bytes are set; `truncated` if a field goes beyond `header_len`; `bad_varint`, `bad_utf8`.
 */
export function readHeader(body: Uint8Array, fixed: FixedHeader = readFixedHeader(body)): M2MHeader {
  const { schema, security, flags, headerLength } = fixed;
  const reader = new ByteReader(body.subarray(0, headerLength), RESERVED_OFFSET);
  for (const byte of reader.take(FIXED_LENGTH - RESERVED_OFFSET, 'reserved bytes')) {
    if (byte !== 0) throw bad('has non-zero reserved bytes');
  }
  if ((flags & CommonFlag.HAS_EXTENSIONS) !== 0) throw bad('announces extensions, but none are defined');
  const compressed = (flags & CommonFlag.COMPRESSED) !== 0;
  let header: M2MHeader;
  switch (schema) {
    case 'request':
    case 'embedding-request':
      checkFlags(flags, REQUEST_FLAGS);
      header = { schema, security, flags, headerLength, compressed, ...readRequest(reader, flags) };
      break;
    case 'response':
    case 'embedding-response':
    case 'error':
      checkFlags(flags, RESPONSE_FLAGS);
      header = { schema, security, flags, headerLength, compressed, ...readResponse(reader, flags) };
      break;
    default:
      checkFlags(flags, 0);
      header = { schema, security, flags, headerLength, compressed };
  }
  if (reader.remaining > 0) throw bad(`has ${reader.remaining} bytes after its last field`);
  return header;
}

function readRequest(reader: ByteReader, flags: number): Omit<RequestFields, 'schema' | 'flags'> {
  const model = readString(reader, 'model');
  const msgCount = reader.varint('msg_count', MAX_U32);
  const packed = reader.take(Math.ceil(msgCount / 4), 'roles');
  const roles = new Array<Role>(msgCount);
  for (let i = 0; i < msgCount; i++) roles[i] = ROLES[roleBits(packed, i)] as Role;
  for (let i = msgCount; i % 4 !== 0; i++) {
    if (roleBits(packed, i) !== 0) throw bad('has non-zero bits after its last role');
  }
  const contentHint = reader.varint('content_hint', MAX_U32);
  const maxTokens =
    (flags & RequestFlag.HAS_MAX_TOKENS) !== 0 ? reader.varint('max_tokens', MAX_U32) : undefined;
  // There is no flag for the cost of a request: it has one if `header_len` leaves room for it.
  const cost = reader.remaining > 0 ? readCost(reader) : undefined;
  return {
    model,
    msgCount,
    roles,
    contentHint,
    ...(maxTokens !== undefined && { maxTokens }),
    ...(cost !== undefined && { cost }),
  };
}

function readResponse(reader: ByteReader, flags: number): Omit<ResponseFields, 'schema' | 'flags'> {
  const id = readString(reader, 'id');
  const model = readString(reader, 'model');
  const finishReason = FINISH_REASONS[reader.u8('finish_reason')] ?? 'unknown';
  const promptTokens = reader.varint('prompt_tokens', MAX_U32);
  const completionTokens = reader.varint('completion_tokens', MAX_U32);
  const optional = (flag: number, what: string) =>
    (flags & flag) !== 0 ? reader.varint(what, MAX_U32) : undefined;
  const cachedTokens = optional(ResponseFlag.HAS_CACHED_TOKENS, 'cached_tokens');
  const reasoningTokens = optional(ResponseFlag.HAS_REASONING_TOKENS, 'reasoning_tokens');
  const cost = (flags & ResponseFlag.HAS_COST_ESTIMATE) !== 0 ? readCost(reader) : undefined;
  return {
    id,
    model,
    finishReason,
    promptTokens,
    completionTokens,
    ...(cachedTokens !== undefined && { cachedTokens }),
    ...(reasoningTokens !== undefined && { reasoningTokens }),
    ...(cost !== undefined && { cost }),
  };
}

function roleBits(packed: Uint8Array, index: number): number {
  return ((packed[index >> 2] as number) >> (2 * (index & 3))) & 3;
}

function readString(reader: ByteReader, what: string): string {
  return decodeUtf8(reader.take(reader.u8(`length of ${what}`), what));
}

function readCost(reader: ByteReader): number {
  const cost = reader.f32('cost');
  // A router adds costs up: a NaN or a negative cost would falsify the sum.
  if (!(cost >= 0 && cost < Infinity)) throw bad(`declares a cost of ${cost}`);
  return cost;
}

function checkFlags(flags: number, known: number): void {
  if ((flags & ~(known | CommonFlag.COMPRESSED)) !== 0) throw bad('sets reserved flags');
}

function bad(what: string): ProtocolError {
  return new ProtocolError('bad_header', `the M2M header ${what}`);
}
