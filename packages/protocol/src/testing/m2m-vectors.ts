import assert from 'node:assert/strict';
import type { M2MDecodeOptions, M2MEncodeOptions, M2MMessage } from '../codec/m2m.js';
import { type M2MHeader, type M2MSchema, m2mFlagNames } from '../codec/m2m-fields.js';
import type { M2MSecurity } from '../codec/m2m-security.js';
import { utf8Length } from '../text.js';

/**
 * One function for each kind of case in `m2m-frame.json` and `m2m-secure.json`. Each throws where the
 * codec does not do what the case's `verdict` says, and none knows a case by its name.
 */

export interface M2MCodec {
  encodeM2M(json: string, options?: M2MEncodeOptions): Uint8Array;
  encodeM2MText(json: string, options?: M2MEncodeOptions): string;
  decodeM2M(frame: Uint8Array | string, options?: M2MDecodeOptions): M2MMessage;
  readM2MHeader(frame: Uint8Array | string): M2MHeader;
  isProtocolError(value: unknown): boolean;
}

export interface EncodeCase {
  readonly name: string;
  readonly verdict: 'byte-exact' | 'must-error' | 'either' | 'refuse-or-consistent';
  readonly constructor: 'request' | 'response' | 'auto';
  readonly input_json: string;
  readonly encode_hex?: string;
  readonly encode_string?: string;
  readonly encoded_fields?: HeaderFields;
}

export interface DecodeCase {
  readonly name: string;
  readonly verdict: 'accept' | 'reject' | 'either';
  readonly frame_hex?: string;
  readonly frame_string?: string;
  readonly absent_if_accepted?: readonly string[];
  readonly decompressed_bytes?: number;
  readonly reference_decode?: { readonly fields?: HeaderFields | null; readonly payload?: string };
}

export interface ConstructedCase {
  readonly name: string;
  readonly input_json: string;
  readonly encode_hex: string;
  readonly encode_string: string;
  readonly encoded_fields: HeaderFields;
}

export interface SecureCase {
  readonly name: string;
  readonly verdict: 'accept' | 'reject' | 'either';
  readonly mode: 'hmac' | 'aead';
  readonly key_hex: string;
  readonly constructor: 'request' | 'response' | 'auto';
  readonly input_json: string;
  readonly nonce_hex?: string;
  readonly frame_hex?: string;
  readonly frame_string?: string;
}

export interface NegativeCase {
  readonly name: string;
  readonly verdict: 'accept' | 'reject' | 'either';
  readonly policy: 'hmac' | 'aead';
  readonly key_hex: string;
  readonly frame_hex: string;
}

/** What the reference says about a header, in its own words. */
interface HeaderFields {
  readonly compressed: boolean;
  readonly flags: number;
  readonly flag_names: readonly string[];
  readonly header_len: number;
  readonly payload_bytes: number;
  readonly schema: number;
  readonly schema_name: string;
  readonly security: number;
  readonly routing?: Readonly<Record<string, unknown>>;
  readonly response?: Readonly<Record<string, unknown>>;
}

const SECURITY = ['NONE', 'HMAC', 'AEAD'] as const;

export function checkEncode(codec: M2MCodec, vector: EncodeCase): void {
  const options = schemaOption(vector.constructor);
  const json = vector.input_json;
  let frame: Uint8Array;
  try {
    frame = codec.encodeM2M(json, options);
  } catch (error) {
    assert(codec.isProtocolError(error), `not a ProtocolError: ${String(error)}`);
    assert.notEqual(vector.verdict, 'byte-exact', `refused: ${(error as Error).message}`);
    assert.throws(() => codec.encodeM2MText(json, options));
    return;
  }
  assert.notEqual(vector.verdict, 'must-error', 'was encoded');
  checkRoundTrip(codec, frame, json);
  checkHeaderIsTrue(codec.readM2MHeader(frame), JSON.parse(json));
  if (vector.verdict !== 'byte-exact') return;
  assert.equal(toHex(frame), vector.encode_hex);
  assert.equal(codec.encodeM2MText(json, options), vector.encode_string);
  checkFields(codec.readM2MHeader(frame), present(vector.encoded_fields));
}

export function checkDecode(codec: M2MCodec, vector: DecodeCase): void {
  const frame = vector.frame_string ?? fromHex(present(vector.frame_hex));
  let message: M2MMessage;
  try {
    message = codec.decodeM2M(frame);
  } catch (error) {
    assert(codec.isProtocolError(error), `not a ProtocolError: ${String(error)}`);
    assert.notEqual(vector.verdict, 'accept', `refused: ${(error as Error).message}`);
    return;
  }
  assert.notEqual(vector.verdict, 'reject', 'was accepted');
  assert.deepEqual(codec.readM2MHeader(frame), message.header);
  const absent = vector.absent_if_accepted ?? [];
  const fields = named(message.header);
  for (const name of absent) assert.equal(fields[name] ?? null, null, `${name} is not absent`);
  if (vector.decompressed_bytes !== undefined) assert.equal(message.bytes.length, vector.decompressed_bytes);
  if (vector.verdict !== 'accept') return;
  const { payload, fields: expected } = vector.reference_decode ?? {};
  if (payload !== undefined) assert.equal(message.json, payload);
  if (expected) checkFields(message.header, expected, absent);
}

/** A schema that only its name selects: both directions, with the bytes of the document. */
export function checkConstructed(codec: M2MCodec, vector: ConstructedCase): void {
  const reference = fromHex(vector.encode_hex);
  const message = codec.decodeM2M(reference);
  assert.equal(message.json, vector.input_json);
  assert.equal(codec.decodeM2M(vector.encode_string).json, vector.input_json);
  checkFields(message.header, vector.encoded_fields);
  const { schema, compressed: compress } = message.header;
  const frame = codec.encodeM2M(vector.input_json, { schema, compress });
  // The document gives embeddings other bytes than the reference writes.
  if (schema.startsWith('embedding')) reference[9] = present(frame[9]);
  assert.equal(toHex(frame), toHex(reference));
}

export function checkSecure(codec: M2MCodec, vector: SecureCase): void {
  const security = policy(vector.mode, vector.key_hex);
  const options = {
    ...schemaOption(vector.constructor),
    security,
    ...(vector.nonce_hex !== undefined && { nonce: fromHex(vector.nonce_hex) }),
  };
  let frame: Uint8Array;
  try {
    frame = codec.encodeM2M(vector.input_json, options);
  } catch (error) {
    assert(codec.isProtocolError(error), `not a ProtocolError: ${String(error)}`);
    assert.notEqual(vector.verdict, 'accept', `refused: ${(error as Error).message}`);
    if (vector.frame_hex !== undefined) {
      assert.throws(
        () => codec.decodeM2M(fromHex(present(vector.frame_hex)), { security }),
        codec.isProtocolError,
      );
    }
    return;
  }
  assert.notEqual(vector.verdict, 'reject', 'was encoded');
  assert.equal(toHex(frame), vector.frame_hex);
  assert.equal(codec.encodeM2MText(vector.input_json, options), vector.frame_string);
  for (const wire of [frame, present(vector.frame_string)]) {
    assert.equal(codec.decodeM2M(wire, { security }).json, vector.input_json);
    assert.throws(() => codec.decodeM2M(wire), codec.isProtocolError, 'accepted without its key');
  }
}

export function checkNegative(codec: M2MCodec, vector: NegativeCase): void {
  const security = policy(vector.policy, vector.key_hex);
  try {
    codec.decodeM2M(fromHex(vector.frame_hex), { security });
  } catch (error) {
    assert(codec.isProtocolError(error), `not a ProtocolError: ${String(error)}`);
    assert.notEqual(vector.verdict, 'accept', `refused: ${(error as Error).message}`);
    return;
  }
  assert.notEqual(vector.verdict, 'reject', 'was accepted');
}

/** Whatever a header states must be what the message says (protocol page, section 4). */
export function checkHeaderIsTrue(header: M2MHeader, message: unknown): void {
  const object = asObject(message);
  if ('model' in header) assert.equal(header.model, typeof object.model === 'string' ? object.model : '');
  if ('id' in header) assert.equal(header.id, typeof object.id === 'string' ? object.id : '');
  if (!('roles' in header)) return;
  const messages = (Array.isArray(object.messages) ? object.messages : []).map(asObject);
  assert.equal(header.msgCount, messages.length);
  const roles = messages.map(({ role }) => (role === 'developer' ? 'system' : role));
  assert.deepEqual(header.roles, roles);
  const texts = messages.flatMap(({ content }) =>
    Array.isArray(content) ? content.map((part) => asObject(part).text) : [content],
  );
  const hint = texts.reduce<number>(
    (sum, text) => sum + (typeof text === 'string' ? utf8Length(text) : 0),
    0,
  );
  assert.equal(header.contentHint, hint);
  const isCount = (value: unknown) =>
    Number.isInteger(value) && (value as number) >= 0 && (value as number) < 2 ** 32;
  const limit = [object.max_tokens, object.max_completion_tokens].find(isCount);
  assert.equal(header.maxTokens, limit);
}

function checkRoundTrip(codec: M2MCodec, frame: Uint8Array, json: string): void {
  const message = codec.decodeM2M(frame);
  assert.equal(message.json, json);
  assert.equal(Buffer.from(message.bytes).toString(), json);
  assert.deepEqual(message.value(), JSON.parse(json));
  assert.deepEqual(codec.readM2MHeader(frame), message.header);
}

function checkFields(header: M2MHeader, expected: HeaderFields, absent: readonly string[] = []): void {
  assert.equal(header.headerLength, expected.header_len);
  assert.equal(header.flags, expected.flags);
  assert.equal(header.compressed, expected.compressed);
  assert.equal(header.security, SECURITY[expected.security]);
  assert.equal(header.schema.replaceAll('-', ''), expected.schema_name.toLowerCase());
  assert.deepEqual(m2mFlagNames(header), expected.flag_names);
  const fields = named(header);
  for (const [name, value] of Object.entries(expected.routing ?? expected.response ?? {})) {
    if (name in fields && !absent.includes(name)) assert.deepEqual(fields[name] ?? null, value, name);
  }
}

/** A header's fields under the reference's names. */
function named(header: M2MHeader): Record<string, unknown> {
  if ('roles' in header) {
    return {
      model: header.model,
      msg_count: header.msgCount,
      roles: header.roles,
      content_hint: header.contentHint,
      max_tokens: header.maxTokens,
      est_cost_usd: header.cost,
    };
  }
  if ('id' in header) {
    return {
      id: header.id,
      model: header.model,
      finish_reason: header.finishReason,
      prompt_tokens: header.promptTokens,
      completion_tokens: header.completionTokens,
      cached_tokens: header.cachedTokens,
      reasoning_tokens: header.reasoningTokens,
      est_cost_usd: header.cost,
    };
  }
  return {};
}

function schemaOption(name: 'request' | 'response' | 'auto'): { schema?: M2MSchema } {
  return name === 'auto' ? {} : { schema: name };
}

function policy(mode: 'hmac' | 'aead', keyHex: string): M2MSecurity {
  return { mode: mode === 'hmac' ? 'HMAC' : 'AEAD', key: fromHex(keyHex) };
}

function asObject(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

function present<T>(value: T | undefined): T {
  assert(value !== undefined, 'the case lacks a field');
  return value;
}

export function fromHex(hex: string): Uint8Array {
  return new Uint8Array(Buffer.from(hex, 'hex'));
}

export function toHex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}
