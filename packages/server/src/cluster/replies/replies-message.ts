import { EncodingName } from '@parlance/protocol';
import { ByteReader, ByteWriter, isCount, isReplyName, REPLY_ID_PREFIX } from '@parlance/protocol/internal';
import type { ReplyEnd, ReplyEntry, ReplyHead, ReplyPieces } from '../../replies/log.js';
import { malformed } from '../peer-message.js';

/**
 * What two nodes tell each other about kept replies. One node dials and asks; the other one answers.
 *
 * With a number that its answer repeats: `find` and `read` are those of the log of replies, `stop` stops a handler, `list`
 * and `next` read a list piece by piece, `prove` asks who a session without a principal acts for, `give` and `piece` hand a
 * reply over. Without an answer: `watch` and `unwatch` are about changes of a reply, `close` ends a list.
 *
 * The other node says `done` or `fail`, after any number of `more` if an answer is long, and `changed`.
 */

/** Bytes of one message; what is longer is told in several. */
export const CHUNK_SIZE = 64 * 1024;
/** What a message takes besides: its head. */
export const CHUNK_ROOM = 32 * 1024;

const NOTHING = new Uint8Array(0);
/** Characters of a JSON value of at most 1 KiB. */
const MAX_SHARE = 1024;
const MAX_ID = 64;
const MAX_TEXT = 16_384;

// --- entries

type HeadFields = readonly [
  id: string,
  owner: string,
  principal: string | null,
  name: string | null,
  share: string | null,
  encoding: string | null,
  ttlMs: number,
  startedAt: number,
];

/** A reply as JSON. The content of its end is not told, only when and whether it has failed. */
export type EntryFields = readonly [...HeadFields, parts: number, endAt: number | null, isFailed: boolean];

export function entryFields({ parts, end, ...head }: ReplyEntry): EntryFields {
  const { id, owner, principal, name, share, encoding, ttlMs, startedAt } = head;
  const texts = [principal ?? null, name ?? null, share ?? null, encoding ?? null] as const;
  return [id, owner, ...texts, ttlMs, startedAt, parts, end?.at ?? null, end?.failure !== undefined];
}

/** @throws {ProtocolError} `bad_message`. */
export function readEntry(value: unknown): ReplyEntry {
  if (!Array.isArray(value)) throw malformed();
  const [id, owner, principal, name, share, encoding, ttlMs, startedAt, parts, endAt, isFailed] = value;
  const isEnd = endAt === null || isTime(endAt);
  if (!isReplyId(id) || !isText(owner, MAX_TEXT) || !isTime(ttlMs) || !isTime(startedAt)) throw malformed();
  if (!isCount(parts) || !isEnd || typeof isFailed !== 'boolean') throw malformed();
  const head: ReplyHead = {
    id,
    owner,
    principal: optional(principal, (text) => isText(text, MAX_TEXT)),
    name: optional(name, isReplyName),
    share: optional(share, (text) => isText(text, MAX_SHARE)),
    encoding: optional(encoding, (text) => Object.values<string>(EncodingName).includes(text)),
    ttlMs,
    startedAt,
  };
  const end: ReplyEnd | undefined =
    endAt === null ? undefined : { at: endAt, failure: isFailed ? NOTHING : undefined, metadata: undefined };
  return { ...head, parts, end };
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

/** @throws {ProtocolError} `bad_message`. */
export function readJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8'));
  } catch {
    throw malformed();
  }
}

// --- pieces

/** `null` is for bytes that are not there. */
export type PiecesFields = readonly [
  records: number,
  metadata: boolean,
  endAt: number | null,
  failure: boolean,
  endMetadata: boolean,
];

export function encodePieces({ records, metadata, end }: ReplyPieces): {
  readonly fields: PiecesFields;
  readonly bytes: Uint8Array;
} {
  const items = [metadata, end?.failure, end?.metadata].filter((bytes) => bytes !== undefined);
  return {
    fields: [
      records.length,
      metadata !== undefined,
      end?.at ?? null,
      end?.failure !== undefined,
      end?.metadata !== undefined,
    ],
    bytes: encodeItems([...items, ...records]),
  };
}

/** @throws {ProtocolError} `bad_message`, `truncated`, `bad_varint`. */
export function readPieces(fields: readonly unknown[], bytes: Uint8Array): ReplyPieces {
  const [count, hasMetadata, endAt, hasFailure, hasEndMetadata] = fields;
  if (!isCount(count) || (endAt !== null && !isTime(endAt))) throw malformed();
  const reader = new ByteReader(bytes);
  const item = (isThere: unknown): Uint8Array | undefined =>
    isThere === true ? takeItem(reader) : undefined;
  const metadata = item(hasMetadata);
  const failure = item(hasFailure);
  const endMetadata = item(hasEndMetadata);
  // Each takes a byte at least, so that no count makes a long list.
  if (count > reader.remaining) throw malformed();
  const records = Array.from({ length: count }, () => takeItem(reader));
  if (reader.remaining > 0) throw malformed();
  const end = endAt === null ? undefined : { at: endAt, failure, metadata: endMetadata };
  return { records, metadata, end };
}

function takeItem(reader: ByteReader): Uint8Array {
  return reader.take(reader.varint('the length of a part'), 'a part of a kept reply');
}

/** Each after its length. */
export function encodeItems(items: readonly Uint8Array[]): Uint8Array {
  const size = items.reduce((sum, { length }) => sum + length + 5, 0);
  const writer = new ByteWriter(size);
  for (const item of items) writer.varint(item.length).append(item);
  return writer.finish();
}
