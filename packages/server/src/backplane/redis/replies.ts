import { keyOf } from '../../keys.js';
import type { ReplyEnd } from '../../replies/log.js';
import {
  type AppendOutcome,
  batchCharge,
  type ClaimOutcome,
  type EngineBounds,
  type EngineEnd,
  type EngineEntry,
  type EngineHead,
  type EnginePage,
  type EnginePieces,
  type EngineState,
  endCharge,
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
import type { Lane } from './connection.js';
import type { Script } from './lua.js';
import { headText, readHead } from './reply-head.js';
import {
  APPEND,
  CLAIM,
  DROP,
  END,
  ENTRY,
  FOLLOW,
  KEEP,
  LIST,
  OPEN,
  READ,
  SHARE,
  VOUCH,
} from './reply-scripts.js';
import {
  bytesOf,
  claimsOf,
  countOf,
  encodeItems,
  endTimeOf,
  listOf,
  malformed,
  newsOf,
  optional,
  optionalBytes,
  placesOf,
  published,
  reading,
  recordsOf,
  sourceText,
  textOf,
  wholeMs,
  writerOf,
} from './reply-values.js';

/** Calls that may be unanswered; with more, none is sent. */
const MAX_CALLS = 4_096;
/** Owners of replies that are remembered. */
const MAX_OWNERS = 1_000;
/** A reply can be found by its ID for so much longer than it is kept, in milliseconds. */
const MARGIN_MS = 60_000;
/** How often a client that cannot listen asks for more of a reply, and whether another node has ended one, in milliseconds. */
const POLL_MS = 100;
const LOOK_MS = 2_000;

/** Kept replies in Redis. See `reply-scripts.ts` for what is there. */
export class RedisReplies implements ReplyEngine {
  readonly #prefix: string;
  readonly #calls: RedisCalls;
  readonly #lane: Lane = { max: MAX_CALLS, unanswered: 0 };
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

  async open(head: EngineHead, bounds: EngineBounds, liveMs: number): Promise<OpenOutcome> {
    const { id, owner, name, share, startedAt, by = '', epoch = 0, source } = head;
    // First, so that a reply that is there can be found.
    await this.#send('SET', this.#ownerKey(id), owner, 'PX', wholeMs(liveMs + MARGIN_MS));
    const outcome = await this.#run(
      OPEN,
      head,
      headText(head),
      optional(name),
      wholeMs(liveMs),
      String(headCharge(head)),
      String(bounds.maxReplies),
      String(bounds.maxOwnerBytes),
      by,
      String(epoch),
      sourceText(source),
    );
    if (outcome === 'done' && share !== undefined) {
      const life = wholeMs(liveMs + MARGIN_MS);
      await this.#calls.runBytes(
        this.#lane,
        SHARE,
        [this.#sharedKey],
        String(startedAt),
        id,
        String(MAX_SHARED),
        life,
      );
    }
    return outcome as OpenOutcome;
  }

  async claim(key: ReplyKey, by: string, liveMs: number): Promise<ClaimOutcome> {
    const { id, epoch = 0 } = key;
    const keys = this.#keysOf(key);
    const answer = listOf(
      await this.#calls.runBytes(this.#lane, CLAIM, keys, id, by, String(epoch), wholeMs(liveMs)),
    );
    const [outcome, parts, offset] = answer.map(String);
    if (outcome !== 'done') return { outcome: outcome as Exclude<ClaimOutcome['outcome'], 'done'> };
    await this.#extend(id, liveMs);
    return { outcome, parts: Number(parts), offset: Number(offset) };
  }

  async append(batch: ReplyBatch, bounds: EngineBounds, liveMs: number): Promise<AppendOutcome> {
    const { epoch = 0, from, offset, records, metadata } = batch;
    const bytes = encodeItems(records);
    const places = placesOf(batch);
    return (await this.#run(
      APPEND,
      batch,
      String(epoch),
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

  async end(
    { owner, id, parts, by, end, ttlMs, epoch = 0, why }: EngineEnd,
    bounds: EngineBounds,
  ): Promise<AppendOutcome> {
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
      String(epoch),
      why ?? '',
      this.#nodeChannel(''),
    );
    if (outcome === 'done') await this.#extend(id, ttlMs);
    return outcome as AppendOutcome;
  }

  async keep(key: ReplyKey, liveMs: number): Promise<KeepOutcome> {
    const answer = await this.#run(KEEP, key, wholeMs(liveMs), String(key.epoch ?? 0));
    if (answer === 'gone' || answer === 'ended' || answer === 'stopped') return { outcome: answer };
    await this.#extend(key.id, liveMs);
    const followedMs = Number(answer);
    return { outcome: 'done', followedMs: followedMs < 0 ? Infinity : followedMs };
  }

  async drop(key: ReplyKey): Promise<void> {
    await this.#run(DROP, key, this.#channel(key.id));
    await this.#send('DEL', this.#ownerKey(key.id));
    this.#owners.delete(key.id);
  }

  async find(id: string): Promise<EngineEntry | undefined> {
    const owner = await this.#ownerOf(id);
    return owner === undefined ? undefined : await this.#entry({ owner, id });
  }

  async named(owner: string, name: string): Promise<EngineEntry | undefined> {
    const [account = ''] = this.#keysOf({ owner, id: '' });
    const id = textOf(await this.#send('HGET', account, `n:${name}`));
    return id === undefined ? undefined : await this.#entry({ owner, id });
  }

  async read(id: string, after: number): Promise<EnginePieces | undefined> {
    const owner = await this.#ownerOf(id);
    if (owner === undefined) return undefined;
    const keys = this.#keysOf({ owner, id }).slice(3);
    const answer = await reading(async () =>
      listOf(await this.#calls.runBytes(this.#lane, READ, keys, String(after))),
    );
    if (answer.length === 0) return undefined;
    const [first, bytes, reaches, endAt, failure, endMetadata, metadata, claims, last, parts] = answer;
    const place = { first: Number(first), last: Number(last), after, parts: Number(parts) };
    const [records, isWhole] = recordsOf(bytesOf(bytes), place);
    const at = endTimeOf(endAt);
    const end: ReplyEnd | undefined =
      at === undefined || Number(reaches) !== 1 || !isWhole
        ? undefined
        : { at, failure: optionalBytes(failure), metadata: optionalBytes(endMetadata) };
    return { records, metadata: optionalBytes(metadata), end, claims: claimsOf(claims) };
  }

  async follow(id: string): Promise<EngineState | undefined> {
    const owner = await this.#ownerOf(id);
    if (owner === undefined) return undefined;
    const keys = this.#keysOf({ owner, id }).slice(3, 4);
    const answer = await reading(async () => listOf(await this.#calls.runBytes(this.#lane, FOLLOW, keys)));
    const [parts, hasEnded, ...writer] = answer;
    if (parts === undefined) return undefined;
    return { parts: countOf(parts), hasEnded: Number(hasEnded) === 1, ...writerOf(writer) };
  }

  async list(owner: string, before?: number): Promise<EnginePage> {
    const keys = this.#keysOf({ owner, id: '' }).slice(0, 3);
    const from = before === undefined ? '+inf' : `(${before}`;
    const answer = listOf(await this.#calls.runBytes(this.#lane, LIST, keys, from));
    const ids = answer.filter((_, i) => i % 2 === 0).map(String);
    // The client writes the commands of one turn together.
    const entries = await Promise.all(ids.map((id) => this.#entry({ owner, id })));
    return {
      entries: entries.filter((entry) => entry !== undefined),
      before: ids.length === 0 ? undefined : Number(answer.at(-1)),
    };
  }

  async shared(): Promise<readonly string[]> {
    const ids = await this.#send('ZREVRANGE', this.#sharedKey, '0', String(MAX_SHARED - 1));
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

  listen(by: string, onEnded: (id: string | undefined) => void): () => void {
    if (this.#isDeaf) {
      const timer = setInterval(() => onEnded(undefined), LOOK_MS);
      timer.unref();
      return () => clearInterval(timer);
    }
    return this.#news.listen(this.#nodeChannel(by), (message) => onEnded(message?.toString()));
  }

  async vouch(sessionId: string, owner: string, hashes: readonly string[], ttlMs: number): Promise<void> {
    await this.#calls.runBytes(
      this.#lane,
      VOUCH,
      [this.#sessionKey(sessionId)],
      owner,
      wholeMs(ttlMs),
      ...hashes,
    );
  }

  async prove(sessionId: string, hash: string): Promise<string | undefined> {
    const key = this.#sessionKey(sessionId);
    const [owner, token] = listOf(await this.#send('HMGET', key, 'o', `t:${hash}`)).map(textOf);
    return token && owner;
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

  #nodeChannel(incarnation: string): string {
    return `${this.#prefix}:n:${incarnation}`;
  }

  // --- calls

  async #run(script: Script, key: ReplyKey, ...args: readonly (string | Uint8Array)[]): Promise<string> {
    return String(await this.#calls.runBytes(this.#lane, script, this.#keysOf(key), key.id, ...args));
  }

  #send(...command: readonly string[]): Promise<unknown> {
    return this.#calls.sendBytes(this.#lane, ...command);
  }

  async #ownerOf(id: string): Promise<string | undefined> {
    const known = this.#owners.get(id);
    if (known !== undefined) return known;
    const owner = textOf(await this.#send('GET', this.#ownerKey(id)));
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
    const answer = await reading(async () => listOf(await this.#calls.runBytes(this.#lane, ENTRY, keys)));
    const [text, parts, endAt, failed, ...writer] = answer;
    if (text === undefined) return undefined;
    const head = readHead(bytesOf(text));
    if (head.id !== id || head.owner !== owner) throw malformed();
    const at = endTimeOf(endAt);
    const failure = Number(failed) === 1 ? NO_BYTES : undefined;
    const end = at === undefined ? undefined : { at, failure, metadata: undefined };
    return { ...head, parts: countOf(parts), end, ...writerOf(writer) };
  }

  async #extend(id: string, ms: number): Promise<void> {
    await this.#send('PEXPIRE', this.#ownerKey(id), wholeMs(ms + MARGIN_MS));
  }
}
