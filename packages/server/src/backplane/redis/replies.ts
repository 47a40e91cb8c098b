import { ProtocolError } from '@parlance/protocol';
import { ByteReader } from '@parlance/protocol/internal';
import { encodeItems, entryFields, readEntry, readJson } from '../../cluster/replies/replies-message.js';
import { keyOf } from '../../keys.js';
import { READ_PARTS, type ReplyEnd, type ReplyHead, type ReplyPieces } from '../../replies/log.js';
import {
  type AppendOutcome,
  batchCharge,
  type EngineBounds,
  type EngineEnd,
  type EngineEntry,
  type EnginePage,
  type EngineState,
  endCharge,
  framedLength,
  headCharge,
  type KeepOutcome,
  MAX_SHARED,
  NO_BYTES,
  type OpenOutcome,
  READ_SIZE,
  type ReplyBatch,
  type ReplyEngine,
  type ReplyKey,
  type ReplyNews,
  UNKNOWN,
} from '../replies.js';
import { RedisCalls } from './calls.js';
import { RedisNews } from './channels.js';
import type { RedisSource } from './client.js';
import {
  APPEND,
  DROP,
  END,
  ENTRY,
  FOLLOW,
  KEEP,
  LIST,
  OPEN,
  PROVE,
  READ,
  SHARE,
  VOUCH,
} from './reply-scripts.js';
import type { Script } from './scripts.js';

/** Owners of replies that are remembered. */
const MAX_OWNERS = 1_000;
/** A reply can be found by its ID for so much longer than it is kept, in milliseconds. */
const MARGIN_MS = 60_000;
/** Parts between two places of the index, and bytes. */
const STRIDE = 32;
const STRIDE_SIZE = 4 * 1024;
/** How often a client that cannot listen asks, in milliseconds. */
const POLL_MS = 100;

/** Kept replies in Redis. See `reply-scripts.ts` for what is there. */
export class RedisReplies implements ReplyEngine {
  readonly #prefix: string;
  readonly #calls: RedisCalls;
  readonly #news: RedisNews;
  readonly #isDeaf: boolean;
  /** By the IDs of their replies. */
  readonly #owners = new Map<string, string>();

  /** @param prefix of every key. */
  constructor(prefix: string, source: RedisSource) {
    this.#prefix = prefix;
    this.#calls = new RedisCalls(source);
    this.#news = new RedisNews(source);
    this.#isDeaf = source.listen === undefined;
  }

  async open(head: ReplyHead, bounds: EngineBounds, liveMs: number): Promise<OpenOutcome> {
    const { id, owner, name, share, startedAt } = head;
    // First, so that a reply that is there can be found.
    await this.#calls.send('SET', this.#ownerKey(id), owner, 'PX', wholeMs(liveMs + MARGIN_MS));
    const fields = JSON.stringify(entryFields({ ...head, parts: 0, end: undefined }));
    const outcome = await this.#run(
      OPEN,
      head,
      fields,
      optional(name),
      wholeMs(liveMs),
      String(headCharge(head)),
      String(bounds.maxReplies),
      String(bounds.maxOwnerBytes),
    );
    if (outcome === 'done' && share !== undefined) {
      const life = wholeMs(liveMs + MARGIN_MS);
      await this.#calls.run(SHARE, [this.#sharedKey], String(startedAt), id, String(MAX_SHARED), life);
    }
    return outcome as OpenOutcome;
  }

  async append(batch: ReplyBatch, bounds: EngineBounds, liveMs: number): Promise<AppendOutcome> {
    const { from, offset, records, metadata } = batch;
    const bytes = encodeItems(records);
    const places = placesOf(batch);
    return (await this.#run(
      APPEND,
      batch,
      String(from),
      String(offset),
      String(records.length),
      bytes,
      String(batchCharge(batch)),
      String(bounds.maxReplyBytes),
      String(bounds.maxOwnerBytes),
      wholeMs(liveMs),
      this.#channel(batch.id),
      bytes.length > READ_SIZE ? '' : published(from, bytes),
      String(places.length),
      ...places.flat().map(String),
      ...metadata.flatMap(([part, each]) => [String(part), each]),
    )) as AppendOutcome;
  }

  async end({ owner, id, parts, by, end, ttlMs }: EngineEnd, bounds: EngineBounds): Promise<AppendOutcome> {
    const outcome = await this.#run(
      END,
      { owner, id },
      parts === undefined ? '*' : String(parts),
      String(end.at),
      optional(end.failure),
      optional(end.metadata),
      wholeMs(ttlMs),
      by,
      this.#channel(id),
      String(endCharge(end)),
      String(bounds.maxReplyBytes),
      String(bounds.maxOwnerBytes),
    );
    if (outcome === 'done') await this.#extend(id, ttlMs);
    return outcome as AppendOutcome;
  }

  async keep(key: ReplyKey, liveMs: number): Promise<KeepOutcome> {
    const answer = await this.#run(KEEP, key, wholeMs(liveMs));
    if (answer === 'gone' || answer === 'ended') return { outcome: answer };
    await this.#extend(key.id, liveMs);
    const followedMs = Number(answer);
    return { outcome: 'done', followedMs: followedMs < 0 ? Infinity : followedMs };
  }

  async drop(key: ReplyKey): Promise<void> {
    await this.#run(DROP, key, this.#channel(key.id));
    await this.#calls.send('DEL', this.#ownerKey(key.id));
    this.#owners.delete(key.id);
  }

  async find(id: string): Promise<EngineEntry | undefined> {
    const owner = await this.#ownerOf(id);
    return owner === undefined ? undefined : await this.#entry({ owner, id });
  }

  async named(owner: string, name: string): Promise<EngineEntry | undefined> {
    const [account = ''] = this.#keysOf({ owner, id: '' });
    const id = textOf(await this.#calls.send('HGET', account, `n:${name}`));
    return id === undefined ? undefined : await this.#entry({ owner, id });
  }

  async read(id: string, after: number): Promise<ReplyPieces | undefined> {
    const owner = await this.#ownerOf(id);
    if (owner === undefined) return undefined;
    const keys = this.#keysOf({ owner, id }).slice(3);
    const answer = listOf(await this.#calls.run(READ, keys, String(after)));
    if (answer.length === 0) return undefined;
    const [first, bytes, reaches, endAt, failure, endMetadata, metadata] = answer;
    const skipped = after - Number(first);
    const all = itemsOf(bytesOf(bytes), skipped + READ_PARTS);
    const records = all.items.slice(skipped);
    const at = textOf(endAt) ?? '';
    const end: ReplyEnd | undefined =
      at === '' || Number(reaches) !== 1 || !all.isWhole
        ? undefined
        : { at: Number(at), failure: optionalBytes(failure), metadata: optionalBytes(endMetadata) };
    return { records, metadata: optionalBytes(metadata), end };
  }

  async follow(id: string): Promise<EngineState | undefined> {
    const owner = await this.#ownerOf(id);
    if (owner === undefined) return undefined;
    const keys = this.#keysOf({ owner, id }).slice(3, 4);
    const [parts, hasEnded, idleMs] = listOf(await this.#calls.run(FOLLOW, keys));
    if (parts === undefined) return undefined;
    return { parts: Number(parts), hasEnded: Number(hasEnded) === 1, idleMs: Number(idleMs) };
  }

  async list(owner: string, before?: number): Promise<EnginePage> {
    const keys = this.#keysOf({ owner, id: '' }).slice(0, 3);
    const from = before === undefined ? '+inf' : `(${before}`;
    const answer = listOf(await this.#calls.run(LIST, keys, from));
    const ids = answer.filter((_, i) => i % 2 === 0).map(String);
    // The client writes the commands of one turn together.
    const entries = await Promise.all(ids.map((id) => this.#entry({ owner, id })));
    return {
      entries: entries.filter((entry) => entry !== undefined),
      before: ids.length === 0 ? undefined : Number(answer.at(-1)),
    };
  }

  async shared(): Promise<readonly string[]> {
    const ids = await this.#calls.send('ZREVRANGE', this.#sharedKey, '0', String(MAX_SHARED - 1));
    return listOf(ids).map(String);
  }

  watch(id: string, onNews: (news: ReplyNews) => void): () => void {
    if (this.#isDeaf) {
      const timer = setInterval(() => onNews(UNKNOWN), POLL_MS);
      timer.unref();
      return () => clearInterval(timer);
    }
    return this.#news.listen(this.#channel(id), (message) =>
      onNews(message === undefined ? UNKNOWN : newsOf(message)),
    );
  }

  async vouch(sessionId: string, owner: string, hashes: readonly string[], ttlMs: number): Promise<void> {
    await this.#calls.run(VOUCH, [this.#sessionKey(sessionId)], owner, wholeMs(ttlMs), ...hashes);
  }

  async prove(sessionId: string, hash: string): Promise<string | undefined> {
    const [owner] = listOf(await this.#calls.run(PROVE, [this.#sessionKey(sessionId)], hash));
    return textOf(owner);
  }

  async close(): Promise<void> {
    this.#news.close();
    this.#calls.close();
  }

  // --- keys; see `reply-scripts.ts` for their order

  #keysOf({ owner, id }: ReplyKey): readonly string[] {
    const base = `${this.#prefix}:{o:${keyOf(owner)}}`;
    const kinds = ['r', 'd', 'i', 'm'].map((kind) => `${base}:${kind}:${keyOf(id)}`);
    return [`${base}:a`, `${base}:x`, `${base}:o`, ...kinds];
  }

  #ownerKey(id: string): string {
    return `${this.#prefix}:{w:${keyOf(id)}}`;
  }

  #sessionKey(sessionId: string): string {
    return `${this.#prefix}:{t:${keyOf(sessionId)}}`;
  }

  get #sharedKey(): string {
    return `${this.#prefix}:{shared}`;
  }

  #channel(id: string): string {
    return `${this.#prefix}:r:${keyOf(id)}`;
  }

  // --- calls

  async #run(script: Script, key: ReplyKey, ...args: readonly (string | Uint8Array)[]): Promise<string> {
    return String(await this.#calls.run(script, this.#keysOf(key), key.id, ...args));
  }

  async #ownerOf(id: string): Promise<string | undefined> {
    const known = this.#owners.get(id);
    if (known !== undefined) return known;
    const owner = textOf(await this.#calls.send('GET', this.#ownerKey(id)));
    if (owner !== undefined) this.#remember(id, owner);
    return owner;
  }

  #remember(id: string, owner: string): void {
    const [oldest] = this.#owners.keys();
    if (this.#owners.size >= MAX_OWNERS && oldest !== undefined) this.#owners.delete(oldest);
    this.#owners.set(id, owner);
  }

  async #entry({ owner, id }: ReplyKey): Promise<EngineEntry | undefined> {
    const keys = this.#keysOf({ owner, id }).slice(3, 4);
    const [head, parts, endAt, failed, idleMs] = listOf(await this.#calls.run(ENTRY, keys));
    if (head === undefined) return undefined;
    const entry = readEntry(readJson(bytesOf(head)));
    if (entry.id !== id || entry.owner !== owner) throw malformed();
    const at = textOf(endAt) ?? '';
    const failure = Number(failed) === 1 ? NO_BYTES : undefined;
    const end = at === '' ? undefined : { at: Number(at), failure, metadata: undefined };
    return { ...entry, parts: Number(parts), end, idleMs: Number(idleMs) };
  }

  async #extend(id: string, ms: number): Promise<void> {
    await this.#calls.send('PEXPIRE', this.#ownerKey(id), wholeMs(ms + MARGIN_MS));
  }
}

/** Where reading may begin, as part and offset: at every 32nd part, and after every 4 KiB. */
function placesOf({ from, offset, records }: ReplyBatch): (readonly [part: number, offset: number])[] {
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

function published(from: number, bytes: Uint8Array): Uint8Array {
  return Buffer.concat([Buffer.from(`${from}:`), bytes]);
}

function newsOf(message: Buffer): ReplyNews {
  const at = message.indexOf(':');
  const from = Number(message.subarray(0, Math.max(0, at)).toString());
  if (at < 1 || !Number.isSafeInteger(from)) return UNKNOWN;
  try {
    return { from, records: itemsOf(message.subarray(at + 1), Infinity).items };
  } catch {
    return UNKNOWN;
  }
}

/** @throws {ProtocolError} `truncated`, `bad_varint`. */
function itemsOf(
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

/** `''` is for what is not there. */
function optional(value: string | Uint8Array | undefined): string | Uint8Array {
  if (typeof value === 'string') return `=${value}`;
  return value === undefined ? '' : Buffer.concat([Buffer.from('='), value]);
}

function optionalBytes(value: unknown): Uint8Array | undefined {
  const bytes = bytesOf(value);
  return bytes.length === 0 ? undefined : new Uint8Array(bytes.subarray(1));
}

function wholeMs(ms: number): string {
  return String(Math.max(1, Math.ceil(ms)));
}

function textOf(value: unknown): string | undefined {
  return value === null || value === undefined ? undefined : String(value);
}

function bytesOf(value: unknown): Uint8Array {
  if (value instanceof Uint8Array) return value;
  throw malformed();
}

function listOf(reply: unknown): unknown[] {
  if (Array.isArray(reply)) return reply;
  throw malformed();
}

function malformed(): ProtocolError {
  return new ProtocolError(
    'connection_failed',
    'Redis: what is kept of a reply is not what a node has written',
  );
}
