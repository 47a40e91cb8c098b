import { decodeUtf8 } from '../base/text.js';
import {
  CommonFlag,
  type M2MHeader,
  type M2MSchema,
  m2mFlagNames,
  RequestFlag,
  ResponseFlag,
  ROLES,
} from '../codec/m2m/fields.js';
import { FINISH_REASONS, SCHEMAS, SECURITY_MODES } from '../codec/m2m/header.js';
import { readM2MBodyHeader } from '../codec/m2m/m2m.js';
import { AEAD_NONCE_LENGTH, AEAD_TAG_LENGTH, SHA256_LENGTH } from '../platform/crypto-suite.js';
import type { FieldReader } from './field-reader.js';
import { catchFault, Fault } from './report.js';
import { byteCount, count, hex, list, number } from './wording.js';

/**
 * M2M v1 after its prefix (wire document, section 3.3): a header that is always readable, then the JSON.
 * A protected frame is shown as far as it can be read without the key.
 */

const FIXED_LENGTH = 20;
const RESERVED_LENGTH = 12;
/** Payload length and CRC. */
const TAIL_HEAD_LENGTH = 8;
const MAX_U32 = 0xffffffff;

/** @param decode returns the JSON of an unprotected frame. */
export function readM2M(reader: FieldReader, decode: () => Uint8Array): string {
  const { report, rest: body, offset: start } = reader;
  report.body = body.length;
  let header: M2MHeader | undefined;
  const walked = catchFault(() => {
    readRouting(reader, readFixedHeader(reader, body));
    readTail(reader, body);
  });
  // The codec decides whether the frame is valid; the walk finds where it is damaged.
  const refused = catchFault(() => {
    header = readM2MBodyHeader(body);
  });
  if (header === undefined || refused !== undefined) {
    throw new Fault((refused as Fault).error, walked?.offset ?? reader.locate('roles') ?? start);
  }
  if (header.security === 'NONE')
    return `${phraseOf(header)}, ${readContent(reader, body.length, decode, walked)}`;
  report.protection = header.security;
  if (walked !== undefined) throw walked;
  return phraseOf(header);
}

interface Routing {
  readonly schema: M2MSchema;
  readonly flags: number;
  /** End of the header. */
  readonly end: number;
}

function readFixedHeader(reader: FieldReader, body: Uint8Array): Routing {
  const start = reader.offset;
  const length = reader.u16('header length');
  reader.annotate(length, 'bytes from here to the payload length');
  if (body.length >= FIXED_LENGTH && length > body.length)
    reader.fail('truncated', 'the header is truncated', start);
  if (body.length >= FIXED_LENGTH && length < FIXED_LENGTH)
    reader.fail('bad_header', 'the header is too short', start);
  const schema = SCHEMAS.get(reader.u8('schema'));
  reader.annotate(schema ?? 'unknown', 'kind of JSON');
  if (schema === undefined) return reader.fail('unknown_schema', 'unknown schema', reader.offset - 1);
  const mode = SECURITY_MODES[reader.u8('security')];
  reader.annotate(mode ?? 'unknown', SECURITY_NOTES[mode ?? '']);
  if (mode === undefined)
    return reader.fail('unknown_security_mode', 'unknown security mode', reader.offset - 1);
  const flags = reader.u32('flags');
  const names = m2mFlagNames({ schema, flags });
  reader.annotate(hex(flags, 8), list(names, 'none set'));
  if (names.length !== bitCount(flags) || (flags & CommonFlag.HAS_EXTENSIONS) !== 0) {
    reader.fail('bad_header', 'undefined flags', reader.offset - 4);
  }
  const reserved = reader.take('reserved', RESERVED_LENGTH);
  reader.note('zeros, not used');
  if (reserved.some((byte) => byte !== 0))
    reader.fail('bad_header', 'reserved bytes are not zero', reader.offset - RESERVED_LENGTH);
  return { schema, flags, end: start + length };
}

function bitCount(flags: number): number {
  return [...(flags >>> 0).toString(2)].filter((bit) => bit === '1').length;
}

const SECURITY_NOTES: Readonly<Record<string, string>> = {
  NONE: 'neither signed nor encrypted',
  HMAC: 'signed with HMAC-SHA256, readable without the key',
  AEAD: 'encrypted with ChaCha20-Poly1305, except for this header',
};

/** The part of the header that routers read; it depends on the schema. */
function readRouting(reader: FieldReader, { schema, flags, end }: Routing): void {
  if (schema === 'request' || schema === 'embedding-request') {
    readString(reader, 'model', 'the model that is asked');
    const messages = reader.varint('messages', MAX_U32);
    reader.annotate(messages, 'number of messages');
    readRoles(reader, messages);
    reader.varint('content size', MAX_U32);
    reader.note('bytes of text in all messages');
    if ((flags & RequestFlag.HAS_MAX_TOKENS) !== 0)
      readCount(reader, 'max_tokens', 'token limit of the reply');
    if (reader.offset < end) readCost(reader);
  } else if (schema !== 'stream' && schema !== 'custom') {
    readString(reader, 'id', 'response ID');
    readString(reader, 'model', 'the model that answered');
    reader.annotate(FINISH_REASONS[reader.u8('finish reason')] ?? 'unknown', 'why the model stopped');
    readCount(reader, 'prompt tokens', 'tokens of the prompt');
    readCount(reader, 'completion tokens', 'tokens of the answer');
    if ((flags & ResponseFlag.HAS_CACHED_TOKENS) !== 0)
      readCount(reader, 'cached tokens', 'prompt tokens from a cache');
    if ((flags & ResponseFlag.HAS_REASONING_TOKENS) !== 0)
      readCount(reader, 'reasoning tokens', 'answer tokens used for reasoning');
    if ((flags & ResponseFlag.HAS_COST_ESTIMATE) !== 0) readCost(reader);
  }
  if (reader.offset !== end) reader.fail('bad_header', 'the fields do not fill the header');
}

function readCount(reader: FieldReader, name: string, note: string): void {
  const value = reader.varint(name, MAX_U32);
  reader.annotate(value, note);
}

function readString(reader: FieldReader, name: string, note: string): void {
  reader.group(name, (field) => {
    const length = reader.u8('length');
    const text = reader.text('text', length);
    field.value = text;
    field.note = note;
    // Length and text as separate rows would only be noise.
    field.children.length = 0;
  });
}

/** Roles listed by name. */
const MAX_ROLES = 64;

function readRoles(reader: FieldReader, messages: number): void {
  if (messages === 0) return;
  const packed = reader.take('roles', Math.ceil(messages / 4));
  const roles: string[] = Array.from(
    { length: Math.min(messages, MAX_ROLES) },
    (_, i) => ROLES[((packed[i >> 2] as number) >> (2 * (i & 3))) & 3] as string,
  );
  reader.annotate(
    `${roles.join(', ')}${messages > MAX_ROLES ? ', …' : ''}`,
    'role of each message, two bits each',
  );
}

function readCost(reader: FieldReader): void {
  const cost = reader.f32('cost');
  if (!(cost >= 0 && cost < Infinity)) reader.fail('bad_header', 'not a valid cost', reader.offset - 4);
  reader.annotate(Number(cost.toPrecision(6)), 'estimate in US dollars');
}

/** Reads what follows the header, which depends on the security mode. */
function readTail(reader: FieldReader, body: Uint8Array): void {
  const mode = SECURITY_MODES[body[3] as number];
  if (mode === 'AEAD') {
    reader.take('nonce', AEAD_NONCE_LENGTH);
    reader.note('unique for each frame, not secret');
    const sealed = reader.remaining - AEAD_TAG_LENGTH;
    if (sealed < TAIL_HEAD_LENGTH) reader.fail('truncated', 'the encrypted part is truncated');
    reader.take('sealed', sealed);
    reader.note('payload length, CRC and payload, encrypted');
    reader.take('tag', AEAD_TAG_LENGTH);
    reader.note('authenticates header and payload');
    return;
  }
  const tagLength = mode === 'HMAC' ? SHA256_LENGTH : 0;
  const length = reader.u32('payload length');
  reader.annotate(length, 'bytes of the encoded JSON');
  const crc = reader.u32('CRC-32');
  reader.annotate(hex(crc, 8), 'of the JSON');
  if (length > reader.remaining - tagLength) {
    reader.fail(
      'truncated',
      `the payload has ${byteCount(length)}, only ${Math.max(0, reader.remaining - tagLength)} are left`,
    );
  }
  reader.take('payload', length);
  reader.note(isCompressed(body) ? `Brotli, ${byteCount(length)}` : 'the JSON, not compressed');
  if (reader.remaining > tagLength) {
    reader.fail('trailing_bytes', `${byteCount(reader.remaining - tagLength)} follow the payload`);
  }
  if (tagLength === 0) return;
  reader.take('tag', tagLength);
  reader.note('HMAC-SHA256 of everything above except the prefix');
}

function isCompressed(body: Uint8Array): boolean {
  return (((body[7] as number) << 24) & CommonFlag.COMPRESSED) !== 0;
}

function readContent(
  reader: FieldReader,
  length: number,
  decode: () => Uint8Array,
  walked: Fault | undefined,
): string {
  const { report } = reader;
  let content: Uint8Array | undefined;
  const refused = catchFault(() => {
    content = reader.checkLoaded('M2M', decode);
  });
  if (refused !== undefined) {
    const { code } = refused.error;
    const place = reader.locate(code === 'bad_checksum' ? 'CRC-32' : 'payload');
    // `bad_frame` is about the content length that the enclosing frame states.
    const offset = code === 'bad_frame' ? refused.offset : (walked?.offset ?? place ?? refused.offset);
    throw new Fault(refused.error, offset);
  }
  if (content === undefined) return byteCount(length);
  report.content = content.length;
  report.preview = report.show(decodeUtf8(content));
  return `${byteCount(length)} for ${number(content.length)} of JSON`;
}

function phraseOf(header: M2MHeader): string {
  const kind = `M2M ${header.schema}`;
  const protection =
    header.security === 'NONE'
      ? ''
      : `, ${header.security === 'HMAC' ? 'signed (HMAC)' : 'encrypted (AEAD)'}`;
  if ('roles' in header) {
    return `${kind} for ${header.model || 'no model'}, ${count(header.msgCount, 'message')}${protection}`;
  }
  return 'model' in header ? `${kind} of ${header.model || 'no model'}${protection}` : `${kind}${protection}`;
}
