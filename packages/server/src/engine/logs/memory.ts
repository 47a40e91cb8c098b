import { Expiring } from '../expiring.js';
import type { ProofItem, ReplyItem } from '../store.js';
import {
  batchCharge,
  type EngineBounds,
  type EngineEnd,
  type EngineEntry,
  type EngineHead,
  endCharge,
  headCharge,
  MAX_SHARED,
  NO_BYTES,
  PAGE_SIZE,
  READ_SIZE,
  type ReplyLogs,
  type ReplyNews,
  UNKNOWN,
  type WrittenBy,
} from './logs.js';
import { RecordStore } from './record-store.js';
import { READ_PARTS, type ReplyHead } from './reply.js';

interface Stored {
  readonly head: ReplyHead & Pick<EngineHead, 'source'>;
  /** It can be found by its name: no newer reply has it. */
  isNamed: boolean;
  /** Grows with each reply. */
  readonly number: number;
  readonly records: RecordStore;
  readonly metadata: (readonly [part: number, bytes: Uint8Array])[];
  bytes: number;
  /** Milliseconds of the clock, as the others. */
  endsAt: number;
  writtenAt: number;
  followedAt: number;
  end: Pick<EngineEnd, 'by' | 'end' | 'why'> | undefined;
  by: string | undefined;
  epoch: number;
}

interface Proof {
  readonly owner: string;
  readonly hashes: readonly string[];
  readonly endsAt: number;
}

/** Kept replies within one process, which can be looked at as a whole. */
export interface MemoryReplies extends ReplyLogs {
  exports(): Iterable<ReplyItem | ProofItem>;
  /** Of heads, parts and ends, as they are charged. */
  size(): number;
}

/** The kept replies of all nodes within one process. */
export function memoryReplies(now: () => number): MemoryReplies {
  const replies = new Expiring<Stored>(now);
  const proofs = new Expiring<Proof>(now);
  const watched = new Map<string, Set<(news: ReplyNews) => void>>();
  /** By node. */
  const listeners = new Map<string, (id: string | undefined) => void>();
  let begun = 0;

  function of(owner: string): Stored[] {
    return [...replies].map(([, stored]) => stored).filter(({ head }) => head.owner === owner);
  }

  function bytesOf(owner: string): number {
    return of(owner).reduce((sum, { bytes }) => sum + bytes, 0);
  }

  function charge(
    stored: Stored,
    size: number,
    { maxReplyBytes, maxOwnerBytes }: EngineBounds,
  ): 'reply_too_large' | 'over_budget' | undefined {
    if (stored.bytes + size > maxReplyBytes) return 'reply_too_large';
    if (bytesOf(stored.head.owner) + size > maxOwnerBytes) return 'over_budget';
    stored.bytes += size;
    return undefined;
  }

  function writerOf({ head, by, epoch, writtenAt }: Stored): WrittenBy {
    return { by, epoch, source: head.source, idleMs: now() - writtenAt };
  }

  function entryOf(stored: Stored): EngineEntry {
    const { head, records, end } = stored;
    const { at, failure } = end?.end ?? {};
    return {
      ...head,
      parts: records.size,
      end: at === undefined ? undefined : { at, failure: failure && NO_BYTES, metadata: undefined },
      ...writerOf(stored),
    };
  }

  function tell(id: string, news: ReplyNews): void {
    for (const onNews of [...(watched.get(id) ?? [])]) onNews(news);
  }

  return {
    async open({ by, epoch = 0, ...head }, bounds, liveMs) {
      const { id, owner, name } = head;
      if (replies.get(id) !== undefined) return 'done';
      if (of(owner).length >= bounds.maxReplies) return 'too_many_replies';
      const bytes = headCharge(head);
      if (bytesOf(owner) + bytes > bounds.maxOwnerBytes) return 'over_budget';
      for (const each of of(owner)) if (each.head.name === name) each.isNamed = false;
      replies.set(id, {
        head,
        isNamed: name !== undefined,
        number: ++begun,
        records: new RecordStore(),
        metadata: [],
        bytes,
        endsAt: now() + liveMs,
        writtenAt: now(),
        followedAt: Number.NEGATIVE_INFINITY,
        end: undefined,
        by,
        epoch,
      });
      return 'done';
    },

    async claim({ id, epoch = 0 }, by, liveMs) {
      const stored = replies.get(id);
      if (stored === undefined) return { outcome: 'gone' };
      if (stored.epoch > epoch || (stored.epoch === epoch && stored.by !== by)) return { outcome: 'ended' };
      const why = stored.end?.why;
      if (stored.end !== undefined && why !== 'orphaned')
        return { outcome: why === 'given_up' ? why : 'over' };
      const { size: parts, length: offset } = stored.records;
      Object.assign(stored, { by, epoch, end: undefined, writtenAt: now(), endsAt: now() + liveMs });
      tell(id, UNKNOWN);
      return { outcome: 'done', parts, offset };
    },

    async append(batch, bounds) {
      const { id, from, records, epoch = 0 } = batch;
      const stored = replies.get(id);
      if (stored === undefined) return 'gone';
      if (stored.end !== undefined || stored.epoch !== epoch) return refusalOf(stored);
      if (stored.records.size === from + records.length) return 'done';
      if (stored.records.size !== from) return 'behind';
      const refusal = charge(stored, batchCharge(batch), bounds);
      if (refusal !== undefined) return refusal;
      for (const record of records) stored.records.append(record);
      stored.metadata.push(...batch.metadata);
      stored.writtenAt = now();
      tell(id, { from, records });
      return 'done';
    },

    async end({ id, parts, by, end, ttlMs, epoch = 0, why }, bounds) {
      const stored = replies.get(id);
      if (stored === undefined) return 'gone';
      if (stored.epoch !== epoch) return 'ended';
      if (stored.end !== undefined) return stored.end.by === by ? 'done' : refusalOf(stored);
      if (parts !== undefined && stored.records.size !== parts) return 'behind';
      const more = endCharge(end);
      const refusal = more === 0 ? undefined : charge(stored, more, bounds);
      if (refusal !== undefined) return refusal;
      stored.end = { by, end, why };
      stored.records.trim();
      stored.endsAt = now() + ttlMs;
      tell(id, UNKNOWN);
      if (stored.by !== undefined && stored.by !== by) listeners.get(stored.by)?.(id);
      return 'done';
    },

    async keep({ id, epoch = 0 }, liveMs) {
      const stored = replies.get(id);
      if (stored === undefined) return { outcome: 'gone' };
      if (stored.end !== undefined || stored.epoch !== epoch) return { outcome: refusalOf(stored) };
      stored.writtenAt = now();
      stored.endsAt = stored.writtenAt + liveMs;
      return { outcome: 'done', followedMs: stored.writtenAt - stored.followedAt };
    },

    async drop({ id }) {
      replies.delete(id);
      tell(id, UNKNOWN);
    },

    async find(id) {
      const stored = replies.get(id);
      return stored && entryOf(stored);
    },

    async named(owner, name) {
      const stored = of(owner).find(({ head, isNamed }) => isNamed && head.name === name);
      return stored && entryOf(stored);
    },

    async read(id, after) {
      const stored = replies.get(id);
      if (stored === undefined) return undefined;
      const records = stored.records.read(after, READ_SIZE, READ_PARTS);
      return {
        records,
        metadata: stored.metadata.findLast(([part]) => part <= after)?.[1],
        end: after + records.length >= stored.records.size ? stored.end?.end : undefined,
      };
    },

    async follow(id) {
      const stored = replies.get(id);
      if (stored === undefined) return undefined;
      stored.followedAt = now();
      const { end, records } = stored;
      return { parts: records.size, hasEnded: end !== undefined, ...writerOf(stored) };
    },

    async list(owner, before = Infinity) {
      const older = of(owner).filter(({ number }) => number < before);
      const page = older.toSorted((a, b) => b.number - a.number).slice(0, PAGE_SIZE);
      return {
        entries: page.map((stored) => entryOf(stored)),
        before: page.length < older.length ? page.at(-1)?.number : undefined,
      };
    },

    async shared() {
      const all = [...replies].map(([, stored]) => stored);
      const shared = all.filter(({ head }) => head.share !== undefined);
      const newest = shared.toSorted((a, b) => b.head.startedAt - a.head.startedAt || b.number - a.number);
      return newest.slice(0, MAX_SHARED).map(({ head }) => head.id);
    },

    watch(id, onNews) {
      const watchers = watched.get(id) ?? new Set();
      watched.set(id, watchers);
      watchers.add(onNews);
      queueMicrotask(() => {
        if (watchers.has(onNews)) onNews(UNKNOWN);
      });
      return () => {
        watchers.delete(onNews);
        if (watchers.size === 0 && watched.get(id) === watchers) watched.delete(id);
      };
    },

    listen(by, onEnded) {
      listeners.set(by, onEnded);
      queueMicrotask(() => listeners.get(by)?.(undefined));
      return () => void listeners.delete(by);
    },

    async vouch(sessionId, owner, hashes, ttlMs) {
      proofs.set(sessionId, { owner, hashes, endsAt: now() + ttlMs });
    },

    async prove(sessionId, hash) {
      const proof = proofs.get(sessionId);
      return proof?.hashes.includes(hash) === true ? proof.owner : undefined;
    },

    *exports() {
      for (const [, { head, by, epoch, metadata, end, isNamed, endsAt }] of replies) {
        const ttlMs = endsAt - now();
        yield { kind: 'reply', head: { ...head, by, epoch }, metadata, end, isNamed, ttlMs };
      }
      for (const [session, { owner, hashes, endsAt }] of proofs)
        yield { kind: 'proof', session, owner, hashes, ttlMs: endsAt - now() };
    },

    size: () => [...replies].reduce((sum, [, { bytes }]) => sum + bytes, 0),

    async close() {},
  };
}

/** The reply takes no more of this writer. */
function refusalOf({ end }: Stored): 'ended' | 'stopped' {
  return end?.why === 'stopped' ? 'stopped' : 'ended';
}
