import { isProtocolError } from '@parlance/protocol';
import { keyOf } from '../../base/keys.js';
import { Expiring } from '../expiring.js';
import type { ProofItem, ReplyItem } from '../store.js';
import type { Capacity, LocalReplies } from './local.js';
import {
  batchCharge,
  type EngineEnd,
  type EngineEntry,
  type EngineHead,
  endCharge,
  headCharge,
  MAX_SHARED,
  NO_BYTES,
  PAGE_SIZE,
  READ_SIZE,
  type ReplyBatch,
  type ReplyChanges,
  type ReplyLogs,
  UNKNOWN,
  type WrittenBy,
} from './logs.js';
import { RecordStore } from './record-store.js';
import { READ_PARTS, SMALL_END } from './reply.js';
import { type Charged, Shares } from './shares.js';

/** Bytes of memory of an array beside its bytes, and of what refers to it. */
const ARRAY_MEMORY = 288;
/** Bytes of memory of a {@link SMALL_END}, which the charge of a head contains. */
const END_MEMORY = 2 * ARRAY_MEMORY + SMALL_END;

interface Stored extends Charged<Stored> {
  readonly head: EngineHead;
  /** Grows with each reply. */
  readonly number: number;
  readonly records: RecordStore;
  readonly metadata: (readonly [part: number, bytes: Uint8Array])[];
  /** Milliseconds of the clock, as the others. */
  endsAt: number;
  writtenAt: number;
  followedAt: number;
  end: Pick<EngineEnd, 'by' | 'end' | 'why'> | undefined;
  by: string | undefined;
  epoch: number;
  /** Its requester needs it no more. */
  isReleased: boolean;
  /** It was read to the end. */
  isRead: boolean;
  /** Those of the same owner and name that have begun before and after it, which are left. */
  older: Stored | undefined;
  newer?: Stored | undefined;
}

interface Proof {
  readonly owner: string;
  readonly hashes: readonly string[];
  readonly endsAt: number;
}

/** Kept replies within one process, which can be looked at as a whole. */
export interface MemoryReplies extends ReplyLogs {
  readonly local: LocalReplies;
  exports(): Iterable<ReplyItem | ProofItem>;
  /** Of heads, parts and ends, as they are charged. */
  size(): number;
}

/**
 * The kept replies of all nodes within one process.
 *
 * @param now milliseconds.
 * @param capacity if the process has one server. @default replies are charged as other engines charge them, and none makes room
 */
export function memoryReplies(now: () => number, capacity?: Capacity): MemoryReplies {
  const replies = new Map<string, Stored>();
  const names = new Map<string, Stored>();
  /** Replies that others than their owner may follow, oldest first. */
  const shared = new Set<Stored>();
  const ended = new Set<Stored>();
  const proofs = new Expiring<Proof>(now);
  const watched = new Map<string, Set<(news: ReplyChanges) => void>>();
  /** By node. */
  const listeners = new Map<string, (id: string | undefined) => void>();
  const shares = new Shares<Stored>(capacity?.maxBytes ?? Number.POSITIVE_INFINITY, (stored) => {
    capacity?.onDropped({ ...entryOf(stored), end: stored.end?.end });
    local.drop(stored.head);
  });
  let begun = 0;

  function get(id: string): Stored | undefined {
    const stored = replies.get(id);
    if (stored === undefined || stored.endsAt > now()) return stored;
    forget(stored);
    return undefined;
  }

  function forget(stored: Stored): void {
    const { head, older, newer } = stored;
    replies.delete(head.id);
    shared.delete(stored);
    ended.delete(stored);
    shares.remove(stored);
    if (head.name === undefined) return;
    if (older !== undefined) older.newer = newer;
    if (newer !== undefined) newer.older = older;
    const name = keyOf(head.owner, head.name);
    if (names.get(name) !== stored) return;
    // In the only process, the name of a reply that is gone means the newest one that is left.
    if (capacity === undefined || older === undefined) names.delete(name);
    else names.set(name, older);
  }

  /** The replies of an owner, oldest first. */
  function of(owner: string): ReadonlySet<Stored> {
    const { replies } = shares.accountOf(owner);
    for (const { head } of replies) get(head.id);
    return replies;
  }

  /** @param charge throws if there is no room, although that of replies whose time is over may be enough. */
  function charging(owner: string, charge: () => void): void {
    try {
      charge();
    } catch (error) {
      const { size } = shares.accountOf(owner).replies;
      if (of(owner).size === size) throw error;
      charge();
    }
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

  function tell(id: string, news: ReplyChanges): void {
    for (const onChanges of [...(watched.get(id) ?? [])]) onChanges(news);
  }

  function freeIfOver(stored: Stored): void {
    if (stored.end !== undefined && stored.isReleased) shares.free(stored, stored.isRead);
  }

  const local: LocalReplies = {
    open(head, bounds, liveMs) {
      const { id, owner, name, share, by, epoch = 0 } = head;
      if (get(id) !== undefined) return 'done';
      const stored: Stored = {
        head,
        number: ++begun,
        account: shares.accountOf(owner),
        records: new RecordStore(),
        metadata: [],
        memory: 0,
        isFree: false,
        endsAt: now() + liveMs,
        writtenAt: now(),
        followedAt: Number.NEGATIVE_INFINITY,
        end: undefined,
        by,
        epoch,
        isReleased: false,
        isRead: false,
        older: name === undefined ? undefined : names.get(keyOf(owner, name)),
      };
      charging(owner, () => shares.add(stored, headCharge(head), bounds));
      replies.set(id, stored);
      if (share !== undefined) shared.add(stored);
      if (stored.older !== undefined) stored.older.newer = stored;
      if (name !== undefined) names.set(keyOf(owner, name), stored);
      return 'done';
    },

    append(batch, bounds) {
      const { id, from, records, epoch = 0 } = batch;
      const stored = get(id);
      if (stored === undefined) return 'gone';
      if (stored.end !== undefined || stored.epoch !== epoch) return refusalOf(stored);
      if (stored.records.size === from + records.length) return 'done';
      if (stored.records.size !== from) return 'behind';
      const size = capacity === undefined ? batchCharge(batch) : growthOf(stored, batch);
      charging(stored.head.owner, () => shares.charge(stored, size, bounds));
      for (const record of records) stored.records.append(record);
      // Copies: the others would keep all of their records alive.
      for (const [part, bytes] of batch.metadata) stored.metadata.push([part, bytes.slice()]);
      stored.writtenAt = now();
      tell(id, { from, records });
      return 'done';
    },

    end({ id, parts, by, end, ttlMs, epoch = 0, why }, bounds) {
      const stored = get(id);
      if (stored === undefined) return 'gone';
      if (stored.epoch !== epoch) return 'ended';
      if (stored.end !== undefined) return stored.end.by === by ? 'done' : refusalOf(stored);
      if (parts !== undefined && stored.records.size !== parts) return 'behind';
      const memory = memoryOf(end.failure) + memoryOf(end.metadata);
      const size = capacity === undefined ? endCharge(end) : Math.max(0, memory - END_MEMORY);
      charging(stored.head.owner, () => shares.charge(stored, size, bounds));
      stored.end = { by, end, why };
      const trimmed = stored.records.trim();
      if (capacity !== undefined) shares.discharge(stored, trimmed);
      stored.endsAt = now() + ttlMs;
      ended.add(stored);
      freeIfOver(stored);
      tell(id, UNKNOWN);
      if (stored.by !== undefined && stored.by !== by) listeners.get(stored.by)?.(id);
      return 'done';
    },

    drop({ id }) {
      const stored = replies.get(id);
      if (stored !== undefined) forget(stored);
      tell(id, UNKNOWN);
    },

    release(id, isRead) {
      const stored = get(id);
      if (stored === undefined) return;
      stored.isReleased = true;
      stored.isRead ||= isRead;
      freeIfOver(stored);
    },

    sweep() {
      for (const { head } of ended) get(head.id);
    },

    get usage() {
      return { replies: replies.size, bytes: shares.bytes };
    },
  };

  return {
    local,
    // The engine's own bound counts, as it may have more room than the node.
    open: (head, bounds, liveMs) =>
      answered(() => local.open(head, { ...bounds, maxReplyBytes: Number.POSITIVE_INFINITY }, liveMs)),
    append: (batch, bounds) => answered(() => local.append(batch, bounds)),
    end: (end, bounds) => answered(() => local.end(end, bounds)),
    drop: async (key) => local.drop(key),

    async claim({ id, epoch = 0 }, by, liveMs) {
      const stored = get(id);
      if (stored === undefined) return { outcome: 'gone' };
      if (stored.epoch > epoch || (stored.epoch === epoch && stored.by !== by)) return { outcome: 'ended' };
      const why = stored.end?.why;
      if (stored.end !== undefined && why !== 'orphaned')
        return { outcome: why === 'given_up' ? why : 'over' };
      const { size: parts, length: offset } = stored.records;
      Object.assign(stored, { by, epoch, end: undefined, writtenAt: now(), endsAt: now() + liveMs });
      ended.delete(stored);
      tell(id, UNKNOWN);
      return { outcome: 'done', parts, offset };
    },

    async keep({ id, epoch = 0 }, liveMs) {
      const stored = get(id);
      if (stored === undefined) return { outcome: 'gone' };
      if (stored.end !== undefined || stored.epoch !== epoch) return { outcome: refusalOf(stored) };
      stored.writtenAt = now();
      stored.endsAt = stored.writtenAt + liveMs;
      return { outcome: 'done', followedMs: stored.writtenAt - stored.followedAt };
    },

    async find(id) {
      const stored = get(id);
      return stored && entryOf(stored);
    },

    async named(owner, name) {
      of(owner);
      const stored = names.get(keyOf(owner, name));
      return stored && entryOf(stored);
    },

    async read(id, after) {
      const stored = get(id);
      if (stored === undefined) return undefined;
      const records = stored.records.read(after, READ_SIZE, READ_PARTS);
      const isAll = after + records.length >= stored.records.size;
      if (isAll && stored.end !== undefined && !stored.isRead) {
        stored.isRead = true;
        freeIfOver(stored);
      }
      return {
        records,
        metadata: stored.metadata.findLast(([part]) => part <= after)?.[1],
        end: isAll ? stored.end?.end : undefined,
      };
    },

    async follow(id) {
      const stored = get(id);
      if (stored === undefined) return undefined;
      stored.followedAt = now();
      const { end, records } = stored;
      return { parts: records.size, hasEnded: end !== undefined, ...writerOf(stored) };
    },

    async list(owner, before = Infinity) {
      const older = [...of(owner)].filter(({ number }) => number < before);
      const page = older.toReversed().slice(0, PAGE_SIZE);
      return {
        entries: page.map((stored) => entryOf(stored)),
        before: page.length < older.length ? page.at(-1)?.number : undefined,
      };
    },

    async shared() {
      const newest = [...shared].toReversed().filter(({ head }) => get(head.id) !== undefined);
      return newest.slice(0, MAX_SHARED).map(({ head }) => head.id);
    },

    watch(id, onChanges) {
      const watchers = watched.get(id) ?? new Set();
      watched.set(id, watchers);
      watchers.add(onChanges);
      queueMicrotask(() => {
        if (watchers.has(onChanges)) onChanges(UNKNOWN);
      });
      return () => {
        watchers.delete(onChanges);
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
      for (const { head: known, by, epoch, metadata, end, endsAt } of replies.values()) {
        const ttlMs = endsAt - now();
        if (ttlMs <= 0) continue;
        const { owner, name } = known;
        const isNamed = name !== undefined && names.get(keyOf(owner, name))?.head === known;
        yield { kind: 'reply', head: { ...known, by, epoch }, metadata, end, isNamed, ttlMs };
      }
      for (const [session, { owner, hashes, endsAt }] of proofs)
        yield { kind: 'proof', session, owner, hashes, ttlMs: endsAt - now() };
    },

    size() {
      for (const id of replies.keys()) get(id);
      return shares.bytes;
    },

    async close() {},
  };
}

/** The reply takes no more of this writer. */
function refusalOf({ end }: Stored): 'ended' | 'stopped' {
  return end?.why === 'stopped' ? 'stopped' : 'ended';
}

const BOUNDS: ReadonlySet<string> = new Set(['too_many_replies', 'over_budget', 'reply_too_large']);

/** Returns a bound that was met as an outcome, as other engines do. */
async function answered<Outcome extends string>(call: () => Outcome): Promise<Outcome> {
  try {
    return call();
  } catch (error) {
    if (isProtocolError(error) && BOUNDS.has(error.code)) return error.code as Outcome;
    throw error;
  }
}

/** Bytes of memory of an array and its entry. */
function memoryOf(bytes: Uint8Array | undefined): number {
  return bytes === undefined ? 0 : ARRAY_MEMORY + bytes.length;
}

/** Bytes of memory that a part takes. */
function growthOf({ records: store }: Stored, { records, metadata }: ReplyBatch): number {
  const growth = records.reduce((sum, { length }) => sum + store.growthFor(length), 0);
  return metadata.reduce((sum, [, bytes]) => sum + memoryOf(bytes), growth);
}
