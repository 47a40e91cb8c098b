import { ProtocolError } from '@parlance/protocol';
import { ByteReader, ByteWriter, isCount } from '@parlance/protocol/internal';
import { framedLength, type ReplyBatch, type ReplyChanges, UNKNOWN, type WrittenBy } from './logs.js';
import { type DurableRequest, READ_PARTS } from './reply.js';

/** Replies in Redis, as bytes and texts. See `reply-scripts.ts`. */

/** Parts between two places of the index, and bytes. */
const STRIDE = 32;
const STRIDE_SIZE = 4 * 1024;

/** The places at which reading may begin, as part and offset: at every 32nd part, and after every 4 KiB. */
export function placesOf({ from, offset, records }: ReplyBatch): (readonly [part: number, offset: number])[] {
  const places: (readonly [number, number])[] = [];
  let [part, at] = [from, offset];
  for (const record of records) {
    if (part % STRIDE === 0) places.push([part, at]);
    const next = at + framedLength(record);
    part++;
    if (Math.floor(next / STRIDE_SIZE) !== Math.floor(at / STRIDE_SIZE) && part % STRIDE !== 0)
      places.push([part, next]);
    at = next;
  }
  return places;
}

export function published(from: number, bytes: Uint8Array): Uint8Array {
  return Buffer.concat([Buffer.from(`${from}:`), bytes]);
}

export function newsOf(message: Buffer): ReplyChanges {
  const at = message.indexOf(':');
  const from = Number(message.subarray(0, Math.max(0, at)).toString());
  if (at < 1 || !Number.isSafeInteger(from)) return UNKNOWN;
  try {
    return { from, records: itemsOf(message.subarray(at + 1), Infinity).items };
  } catch {
    return UNKNOWN;
  }
}

/**
 * The parts after number `after` in an answer of READ.
 *
 * @throws {ProtocolError} `bad_message` if they are not as many as there must be.
 */
export function recordsOf(
  bytes: Uint8Array,
  { first, last, after, parts }: Place,
): readonly [Uint8Array[], boolean] {
  const skipped = after - first;
  if (!(skipped >= 0)) throw malformed();
  let all: ReturnType<typeof itemsOf>;
  try {
    all = itemsOf(bytes, skipped + READ_PARTS);
  } catch (cause) {
    throw malformed(cause);
  }
  const { items, isWhole } = all;
  const isRight = isWhole ? items.length === last - first : items.length < last - first;
  if (after < parts && (!isRight || items.length <= skipped)) throw malformed();
  return [items.slice(skipped), isWhole];
}

/** The parts that an answer of READ is about. */
interface Place {
  /** Parts before those that it has, and the number of the last one. */
  readonly first: number;
  readonly last: number;
  /** The part after which the reader asked to read, and the number of all parts. */
  readonly after: number;
  readonly parts: number;
}

/** @throws {ProtocolError} `truncated`, `bad_varint`. */
export function itemsOf(
  bytes: Uint8Array,
  max: number,
): { readonly items: Uint8Array[]; readonly isWhole: boolean } {
  const reader = new ByteReader(bytes);
  const items: Uint8Array[] = [];
  while (reader.remaining > 0 && items.length < max)
    // A copy: a view would keep all of the answer alive, and be a Buffer.
    items.push(new Uint8Array(reader.take(reader.varint('the length of a part'), 'a part of a kept reply')));
  return { items, isWhole: reader.remaining === 0 };
}

/** Each after its length. */
export function encodeItems(items: readonly Uint8Array[]): Uint8Array {
  const size = items.reduce((sum, { length }) => sum + length + 5, 0);
  const writer = new ByteWriter(size);
  for (const item of items) writer.varint(item.length).append(item);
  return writer.finish();
}

/** `''` is for what is not there. */
export function optional(value: string | Uint8Array | undefined): string | Uint8Array {
  if (typeof value === 'string') return `=${value}`;
  return value === undefined ? '' : Buffer.concat([Buffer.from('='), value]);
}

export function optionalBytes(value: unknown): Uint8Array | undefined {
  const bytes = bytesOf(value);
  return bytes.length === 0 ? undefined : new Uint8Array(bytes.subarray(1));
}

export function wholeMs(ms: number): string {
  return String(Math.max(1, Math.ceil(ms)));
}

export function textOf(value: unknown): string | undefined {
  return value === null || value === undefined ? undefined : String(value);
}

export function bytesOf(value: unknown): Uint8Array {
  if (value instanceof Uint8Array) return value;
  throw malformed();
}

export function listOf(reply: unknown): unknown[] {
  if (Array.isArray(reply)) return reply;
  throw malformed();
}

export function malformed(cause?: unknown): ProtocolError {
  const message = 'Redis: what is kept of a reply is not what a node has written';
  return new ProtocolError('bad_message', message, { cause });
}

/** Fails for good if what Redis has is not what a node has written. @throws {ProtocolError} `bad_message`. */
export async function reading<Result>(read: () => Promise<Result>): Promise<Result> {
  try {
    return await read();
  } catch (error) {
    const { message = '', cause } = error instanceof Error ? error : {};
    const texts = [message, cause instanceof Error ? cause.message : ''];
    throw texts.some((text) => WRONG.test(text)) ? malformed(error) : error;
  }
}

/** Errors of Redis for a key of another kind, and for a script that finds something else than a number. */
const WRONG = /WRONGTYPE|attempt to |bad argument /;

/** The last values of ENTRY and FOLLOW. */
export function writerOf([idleMs, by, epoch, source]: readonly unknown[]): WrittenBy {
  const node = textOf(by) ?? '';
  return {
    idleMs: Number(idleMs),
    by: node === '' ? undefined : node,
    epoch: countOf(epoch),
    source: readSource(textOf(source) ?? ''),
  };
}

/** @throws {ProtocolError} `bad_message` if it is not a count. */
export function countOf(value: unknown): number {
  const text = textOf(value) ?? '';
  const count = Number(text);
  if (text === '' || !isCount(count)) throw malformed();
  return count;
}

/** When a reply has ended; `undefined` if it has not. @throws {ProtocolError} `bad_message`. */
export function endTimeOf(value: unknown): number | undefined {
  const text = textOf(value) ?? '';
  return text === '' ? undefined : countOf(text.slice(1));
}

export function sourceText(source: DurableRequest | undefined): string {
  return source === undefined ? '' : `${source.stream} ${source.session}`;
}

function readSource(text: string): DurableRequest | undefined {
  const [, stream, session] = /^(\d{1,16}) (.+)$/.exec(text) ?? [];
  return session === undefined ? undefined : { session, stream: Number(stream) };
}
