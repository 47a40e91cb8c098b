import { fail, holds, same } from './expect.js';
import { type Fields, isRecord } from './fields.js';
import type { M2MHeader } from './subject.js';

/** Compares M2M headers to the vectors' words, and to the message that they describe. */

const SECURITY_MODES = ['NONE', 'HMAC', 'AEAD'];

/** Schema bytes of the wire document, and those that the reference uses instead. */
const SCHEMA_BYTES: Readonly<Record<M2MHeader['schema'], readonly number[]>> = {
  request: [0x01],
  response: [0x02],
  stream: [0x03],
  error: [0x10],
  'embedding-request': [0x11, 0x04],
  'embedding-response': [0x12, 0x05],
  custom: [0xfe],
};

const FINISH_BYTES: Readonly<Record<string, number>> = {
  stop: 0,
  length: 1,
  tool_calls: 2,
  content_filter: 3,
  unknown: 0xff,
};

/** Fields that hold the same value as another field. */
const TWIN: Readonly<Record<string, string>> = {
  est_cost_f32_le: 'est_cost_usd',
  finish_reason_byte: 'finish_reason',
};

/** The byte that our own encoder writes for a schema. */
export function schemaByte(schema: M2MHeader['schema']): number {
  return SCHEMA_BYTES[schema][0] as number;
}

/**
 * Compares every field of the vector's `fields`, except for the names in `absent`, which may have any value.
 */
export function sameHeader(header: M2MHeader, expected: Fields, absent: readonly string[] = []): void {
  const variable = expected.maybe('object', 'routing') ?? expected.maybe('object', 'response');
  const known = namedFields(header);
  for (const name of expected.names) {
    const value = expected.raw(name);
    switch (name) {
      case 'compressed':
        same(header.compressed, value, name);
        break;
      case 'flags':
        same(header.flags, value, name);
        break;
      case 'flags_hex':
        same(
          littleEndian((view) => view.setUint32(0, header.flags, true)),
          value,
          name,
        );
        break;
      case 'header_len':
        same(header.headerLength, value, name);
        break;
      case 'schema':
        holds(
          SCHEMA_BYTES[header.schema].includes(value as number),
          `schema: ${String(value)} is not ${header.schema}`,
        );
        break;
      case 'security':
        same(header.security, SECURITY_MODES[value as number], name);
        break;
      // The checksum and the length of the payload are not part of the header, and the names repeat the
      // numbers.
      case 'crc32':
      case 'crc32_hex_le':
      case 'payload_bytes':
      case 'flag_names':
      case 'schema_name':
      case 'routing':
      case 'response':
        break;
      default:
        fail(`the runner does not know the header field ${name}`);
    }
  }
  for (const name of variable?.names ?? []) {
    if (!Object.hasOwn(known, name)) fail(`the header has no field ${name}`);
    if (!absent.includes(name) && !absent.includes(TWIN[name] ?? ''))
      same(known[name], variable?.raw(name), name);
  }
}

/** The variable header in the vectors' words; missing values are null. */
export function namedFields(header: M2MHeader): Readonly<Record<string, unknown>> {
  if ('roles' in header) {
    return {
      model: header.model,
      msg_count: header.msgCount,
      roles: header.roles,
      content_hint: header.contentHint,
      max_tokens: header.maxTokens ?? null,
      ...costFields(header.cost),
    };
  }
  if ('id' in header) {
    return {
      id: header.id,
      model: header.model,
      finish_reason: header.finishReason,
      finish_reason_byte: FINISH_BYTES[header.finishReason],
      prompt_tokens: header.promptTokens,
      completion_tokens: header.completionTokens,
      cached_tokens: header.cachedTokens ?? null,
      reasoning_tokens: header.reasoningTokens ?? null,
      ...costFields(header.cost),
    };
  }
  return {};
}

function costFields(cost: number | undefined) {
  if (cost === undefined) return { est_cost_usd: null, est_cost_f32_le: null };
  return {
    est_cost_usd: cost,
    est_cost_f32_le: littleEndian((view) => view.setFloat32(0, cost, true)),
  };
}

function littleEndian(write: (view: DataView) => void): string {
  const bytes = Buffer.alloc(4);
  write(new DataView(bytes.buffer, bytes.byteOffset, 4));
  return bytes.toString('hex');
}

const PRESENCE_BITS: Readonly<Record<string, number>> = {
  tools: 1,
  tool_choice: 2,
  response_format: 5,
  reasoning_effort: 7,
  service_tier: 8,
  seed: 9,
  logprobs: 10,
  user: 11,
  temperature: 12,
  top_p: 13,
  stop: 14,
};

/** Every value in a header must match the message (protocol page, section 4: a header never lies). */
export function headerIsTrue(header: M2MHeader, message: unknown): void {
  const object = recordOf(message);
  if ('model' in header) same(header.model, textOf(object['model']), 'model in the header');
  if ('id' in header) responseIsTrue(header, object);
  if (!('roles' in header)) return;

  const messages = listOf(object['messages']).map(recordOf);
  same(header.msgCount, messages.length, 'msg_count in the header');
  const roles = messages.map(({ role }) => (role === 'developer' ? 'system' : role));
  same(header.roles, roles, 'roles in the header');
  const texts = messages.flatMap(({ content }) =>
    Array.isArray(content) ? content.map((part) => recordOf(part)['text']) : [content],
  );
  const hint = texts.reduce<number>((sum, text) => sum + Buffer.byteLength(textOf(text)), 0);
  same(header.contentHint, hint, 'content_hint in the header');
  const maxTokens = [object['max_tokens'], object['max_completion_tokens']].find(isCount);
  same(header.maxTokens, maxTokens, 'max_tokens in the header');
  same(hasBit(header, 6), maxTokens !== undefined, 'flag HAS_MAX_TOKENS');
  same(hasBit(header, 0), roles.includes('system'), 'flag HAS_SYSTEM_PROMPT');
  same(hasBit(header, 4), object['stream'] === true, 'flag STREAM_REQUESTED');
  for (const [name, bit] of Object.entries(PRESENCE_BITS)) {
    if (Object.hasOwn(object, name)) holds(hasBit(header, bit), `the flag of ${name} is clear`);
  }
}

function responseIsTrue(header: Extract<M2MHeader, { id: string }>, object: Record<string, unknown>): void {
  same(header.id, textOf(object['id']), 'id in the header');
  const reason = recordOf(listOf(object['choices'])[0])['finish_reason'];
  const known = typeof reason === 'string' && Object.hasOwn(FINISH_BYTES, reason) ? reason : 'unknown';
  same(header.finishReason, known, 'finish_reason in the header');
  const usage = recordOf(object['usage']);
  const stated = (value: unknown) => (isCount(value) ? value : 0);
  same(header.promptTokens, stated(usage['prompt_tokens']), 'prompt_tokens in the header');
  same(header.completionTokens, stated(usage['completion_tokens']), 'completion_tokens in the header');
  same(hasBit(header, 3), Object.hasOwn(object, 'usage'), 'flag HAS_USAGE');
}

function hasBit(header: M2MHeader, bit: number): boolean {
  return (header.flags & (1 << bit)) !== 0;
}

function isCount(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= 0xffffffff;
}

function recordOf(value: unknown): Record<string, unknown> {
  return isRecord(value) ? value : {};
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
