import { EncodingName } from '@parlance/protocol';
import { isReplyName, REPLY_ID_PREFIX } from '@parlance/protocol/internal';
import { malformed } from './redis-values.js';
import type { ReplyHead } from './reply.js';

/** Characters of a JSON value of at most 1 KiB. */
const MAX_SHARE = 1024;
const MAX_ID = 64;
const MAX_TEXT = 16_384;

/** The head of a kept reply, as it stands in Redis: a JSON list. */
export function headText(head: ReplyHead): string {
  const { id, owner, principal, name, share, encoding, ttlMs, startedAt } = head;
  return JSON.stringify([id, owner, principal, name, share, encoding, ttlMs, startedAt]);
}

/** @throws {ProtocolError} `bad_message`. */
export function readHead(text: Uint8Array): ReplyHead {
  const value = readJson(text);
  if (!Array.isArray(value)) throw malformed();
  const [id, owner, principal, name, share, encoding, ttlMs, startedAt] = value;
  if (!isReplyId(id) || !isText(owner, MAX_TEXT) || !isTime(ttlMs) || !isTime(startedAt)) throw malformed();
  return {
    id,
    owner,
    principal: optional(principal, (text) => isText(text, MAX_TEXT)),
    name: optional(name, isReplyName),
    share: optional(share, (text) => isText(text, MAX_SHARE)),
    encoding: optional(encoding, (text) => Object.values<string>(EncodingName).includes(text)),
    ttlMs,
    startedAt,
  };
}

/** @throws {ProtocolError} `bad_message`. */
function optional(value: unknown, isValid: (text: string) => boolean): string | undefined {
  if (value === null) return undefined;
  if (typeof value === 'string' && isValid(value)) return value;
  throw malformed();
}

function isReplyId(value: unknown): value is string {
  return isText(value, MAX_ID) && value.startsWith(REPLY_ID_PREFIX);
}

function isText(value: unknown, maxLength: number): value is string {
  return typeof value === 'string' && value.length <= maxLength;
}

function isTime(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0;
}

function readJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8'));
  } catch (cause) {
    throw malformed(cause);
  }
}
