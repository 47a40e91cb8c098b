import { keyOf } from '../../base/keys.js';
import { RedisCalls } from '../redis/calls.js';
import { RedisChanges } from '../redis/channels.js';
import type { RedisSource } from '../redis/client.js';
import type { Lane } from '../redis/connection.js';
import type { Script } from '../redis/lua.js';
import {
  type AppendOutcome,
  batchCharge,
  type ClaimOutcome,
  type EngineEntry,
  endCharge,
  headCharge,
  MAX_SHARED,
  NO_BYTES,
  type OpenOutcome,
  READ_SIZE,
  type ReplyKey,
  type ReplyLogs,
  UNKNOWN,
} from './logs.js';
import { headText, readHead } from './redis-head.js';
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
} from './redis-scripts.js';
import {
  bytesOf,
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
} from './redis-values.js';
import type { ReplyEnd } from './reply.js';

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
export function redisReplies(prefix: string, source: RedisSource): ReplyLogs {
  const calls = new RedisCalls(source);
  const lane: Lane = { max: MAX_CALLS, unanswered: 0 };
  const heard = new RedisChanges(source);
  const sharedKey = `${prefix}:{shared}`;
  /** By the IDs of their replies. */
  const owners = new Map<string, string>();

  function keysOf({ owner, id }: ReplyKey): readonly string[] {
    const base = `${prefix}:{o:${keyOf(owner)}}`;
    const kinds = ['r', 'd', 'i', 'm'].map((kind) => `${base}:${kind}:${keyOf(id)}`);
    return [`${base}:a`, `${base}:x`, `${base}:o`, ...kinds];
  }

  function ownerKey(id: string): string {
    return `${prefix}:{w:${keyOf(id)}}`;
  }

  function sessionKey(sessionId: string): string {
    return `${prefix}:{t:${keyOf(sessionId)}}`;
  }

  function channel(id: string): string {
    return `${prefix}:r:${keyOf(id)}`;
  }

  function nodeChannel(incarnation: string): string {
    return `${prefix}:n:${incarnation}`;
  }

  async function run(
    script: Script,
    key: ReplyKey,
    ...args: readonly (string | Uint8Array)[]
  ): Promise<string> {
    return String(await calls.runBytes(lane, script, keysOf(key), key.id, ...args));
  }

  function send(...command: readonly string[]): Promise<unknown> {
    return calls.send(lane, ...command);
  }

  async function ask(
    script: Script,
    keys: readonly string[],
    ...args: readonly string[]
  ): Promise<unknown[]> {
    return listOf(await calls.runBytes(lane, script, keys, ...args));
  }

  /** @param pollMs how often a listener that cannot subscribe is notified that it may have missed something. */
  function hear(name: string, pollMs: number, onMessage: (message: Buffer | undefined) => void): () => void {
    if (source.listen !== undefined) return heard.listen(name, onMessage);
    const timer = setInterval(() => onMessage(undefined), pollMs);
    timer.unref();
    return () => clearInterval(timer);
  }

  async function ownerOf(id: string): Promise<string | undefined> {
    const known = owners.get(id);
    if (known !== undefined) return known;
    const owner = textOf(await send('GET', ownerKey(id)));
    if (owner !== undefined) remember(id, owner);
    return owner;
  }

  function remember(id: string, owner: string): void {
    const [oldest] = owners.keys();
    if (owners.size >= MAX_OWNERS && oldest !== undefined) owners.delete(oldest);
    owners.set(id, owner);
  }

  async function entry({ owner, id }: ReplyKey): Promise<EngineEntry | undefined> {
    const keys = keysOf({ owner, id }).slice(3, 4);
    const answer = await reading(() => ask(ENTRY, keys));
    const [text, parts, endAt, failed, ...writer] = answer;
    if (text === undefined) return undefined;
    const head = readHead(bytesOf(text));
    if (head.id !== id || head.owner !== owner) throw malformed();
    const at = endTimeOf(endAt);
    const failure = Number(failed) === 1 ? NO_BYTES : undefined;
    const end = at === undefined ? undefined : { at, failure, metadata: undefined };
    return { ...head, parts: countOf(parts), end, ...writerOf(writer) };
  }

  async function extend(id: string, ms: number): Promise<void> {
    await send('PEXPIRE', ownerKey(id), wholeMs(ms + MARGIN_MS));
  }

  return {
    async open(head, bounds, liveMs) {
      const { id, owner, name, share, startedAt, by = '', epoch = 0 } = head;
      // First, so that a reply that is there can be found.
      await send('SET', ownerKey(id), owner, 'PX', wholeMs(liveMs + MARGIN_MS));
      const outcome = await run(
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
        sourceText(head.source),
      );
      if (outcome === 'done' && share !== undefined) {
        const life = wholeMs(liveMs + MARGIN_MS);
        await calls.runBytes(lane, SHARE, [sharedKey], String(startedAt), id, String(MAX_SHARED), life);
      }
      return outcome as OpenOutcome;
    },

    async claim(key, by, liveMs) {
      const { id, epoch = 0 } = key;
      const answer = await ask(CLAIM, keysOf(key), id, by, String(epoch), wholeMs(liveMs));
      const [outcome, parts, offset] = answer.map(String);
      if (outcome !== 'done') return { outcome: outcome as Exclude<ClaimOutcome['outcome'], 'done'> };
      await extend(id, liveMs);
      return { outcome, parts: Number(parts), offset: Number(offset) };
    },

    async append(batch, bounds, liveMs) {
      const { epoch = 0, from, offset, records, metadata } = batch;
      const bytes = encodeItems(records);
      const places = placesOf(batch);
      return (await run(
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
        channel(batch.id),
        bytes.length > READ_SIZE ? '' : published(from, bytes),
        String(places.length),
        ...places.flat().map(String),
        ...metadata.flatMap(([part, each]) => [String(part), each]),
      )) as AppendOutcome;
    },

    async end({ owner, id, parts, by, end, ttlMs, epoch = 0, why }, bounds) {
      const outcome = await run(
        END,
        { owner, id },
        parts === undefined ? '*' : String(parts),
        String(end.at),
        optional(end.failure),
        optional(end.metadata),
        wholeMs(ttlMs),
        by,
        channel(id),
        String(endCharge(end)),
        String(bounds.maxReplyBytes),
        String(bounds.maxOwnerBytes),
        String(epoch),
        why ?? '',
        nodeChannel(''),
      );
      if (outcome === 'done') await extend(id, ttlMs);
      return outcome as AppendOutcome;
    },

    async keep(key, liveMs) {
      const answer = await run(KEEP, key, wholeMs(liveMs), String(key.epoch ?? 0));
      if (answer === 'gone' || answer === 'ended' || answer === 'stopped') return { outcome: answer };
      await extend(key.id, liveMs);
      const followedMs = Number(answer);
      return { outcome: 'done', followedMs: followedMs < 0 ? Infinity : followedMs };
    },

    async drop(key) {
      await run(DROP, key, channel(key.id));
      await send('DEL', ownerKey(key.id));
      owners.delete(key.id);
    },

    async find(id) {
      const owner = await ownerOf(id);
      return owner === undefined ? undefined : await entry({ owner, id });
    },

    async named(owner, name) {
      const [account = ''] = keysOf({ owner, id: '' });
      const id = textOf(await send('HGET', account, `n:${name}`));
      return id === undefined ? undefined : await entry({ owner, id });
    },

    async read(id, after) {
      const owner = await ownerOf(id);
      if (owner === undefined) return undefined;
      const keys = keysOf({ owner, id }).slice(3);
      const answer = await reading(() => ask(READ, keys, String(after)));
      if (answer.length === 0) return undefined;
      const [first, bytes, reaches, endAt, failure, endMetadata, metadata, last, parts] = answer;
      const place = { first: Number(first), last: Number(last), after, parts: Number(parts) };
      const [records, isWhole] = recordsOf(bytesOf(bytes), place);
      const at = endTimeOf(endAt);
      const end: ReplyEnd | undefined =
        at === undefined || Number(reaches) !== 1 || !isWhole
          ? undefined
          : { at, failure: optionalBytes(failure), metadata: optionalBytes(endMetadata) };
      return { records, metadata: optionalBytes(metadata), end };
    },

    async follow(id) {
      const owner = await ownerOf(id);
      if (owner === undefined) return undefined;
      const keys = keysOf({ owner, id }).slice(3, 4);
      const answer = await reading(() => ask(FOLLOW, keys));
      const [parts, hasEnded, ...writer] = answer;
      if (parts === undefined) return undefined;
      return { parts: countOf(parts), hasEnded: Number(hasEnded) === 1, ...writerOf(writer) };
    },

    async list(owner, before) {
      const keys = keysOf({ owner, id: '' }).slice(0, 3);
      const from = before === undefined ? '+inf' : `(${before}`;
      const answer = await ask(LIST, keys, from);
      const ids = answer.filter((_, i) => i % 2 === 0).map(String);
      // The client writes the commands of one turn together.
      const entries = await Promise.all(ids.map((id) => entry({ owner, id })));
      return {
        entries: entries.filter((entry) => entry !== undefined),
        before: ids.length === 0 ? undefined : Number(answer.at(-1)),
      };
    },

    async shared() {
      const ids = await send('ZREVRANGE', sharedKey, '0', String(MAX_SHARED - 1));
      return listOf(ids).map(String);
    },

    watch: (id, onChanges) =>
      hear(channel(id), POLL_MS, (message) => onChanges(message === undefined ? UNKNOWN : newsOf(message))),

    listen: (by, onEnded) => hear(nodeChannel(by), LOOK_MS, (message) => onEnded(message?.toString())),

    async vouch(sessionId, owner, hashes, ttlMs) {
      await calls.runBytes(lane, VOUCH, [sessionKey(sessionId)], owner, wholeMs(ttlMs), ...hashes);
    },

    async prove(sessionId, hash) {
      const key = sessionKey(sessionId);
      const [owner, token] = listOf(await send('HMGET', key, 'o', `t:${hash}`)).map(textOf);
      return token && owner;
    },

    async close() {
      heard.close();
      calls.close();
    },
  };
}
