import { keyOf } from '../keys.js';
import { READ_PARTS, type ReplyHead } from '../replies/log.js';
import { RecordStore } from '../replies/record-store.js';
import { Expiring } from './expiring.js';
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
  PAGE_SIZE,
  READ_SIZE,
  type ReplyBatch,
  type ReplyClaim,
  type ReplyEngine,
  type ReplyKey,
  type ReplyNews,
  UNKNOWN,
  type WrittenBy,
} from './replies.js';

interface Stored {
  readonly head: ReplyHead & Pick<EngineHead, 'source'>;
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
  claims: readonly ReplyClaim[];
}

interface Proof {
  readonly owner: string;
  readonly hashes: readonly string[];
  readonly endsAt: number;
}

/** The kept replies of a cluster within one process. */
export class MemoryReplies implements ReplyEngine {
  readonly #now: () => number;
  readonly #replies: Expiring<Stored>;
  /** The newest IDs by their names. */
  readonly #names = new Map<string, string>();
  readonly #proofs: Expiring<Proof>;
  readonly #watchers = new Map<string, Set<(news: ReplyNews) => void>>();
  /** By node. */
  readonly #listeners = new Map<string, (id: string | undefined) => void>();
  #begun = 0;

  constructor(now: () => number) {
    this.#now = now;
    this.#replies = new Expiring(now);
    this.#proofs = new Expiring(now);
  }

  async open(
    { by, epoch = 0, ...head }: EngineHead,
    bounds: EngineBounds,
    liveMs: number,
  ): Promise<OpenOutcome> {
    const { id, owner, name } = head;
    if (this.#replies.get(id) !== undefined) return 'done';
    if (this.#of(owner).length >= bounds.maxReplies) return 'too_many_replies';
    const bytes = headCharge(head);
    if (this.#bytesOf(owner) + bytes > bounds.maxOwnerBytes) return 'over_budget';
    const now = this.#now();
    this.#replies.set(id, {
      head,
      number: ++this.#begun,
      records: new RecordStore(),
      metadata: [],
      bytes,
      endsAt: now + liveMs,
      writtenAt: now,
      followedAt: Number.NEGATIVE_INFINITY,
      end: undefined,
      by,
      epoch,
      claims: [],
    });
    if (name !== undefined) this.#names.set(keyOf(owner, name), id);
    return 'done';
  }

  async claim({ id, epoch = 0 }: ReplyKey, by: string, liveMs: number): Promise<ClaimOutcome> {
    const stored = this.#replies.get(id);
    if (stored === undefined) return { outcome: 'gone' };
    if (stored.epoch > epoch || (stored.epoch === epoch && stored.by !== by)) return { outcome: 'ended' };
    const why = stored.end?.why;
    if (stored.end !== undefined && why !== 'orphaned') return { outcome: why === 'given_up' ? why : 'over' };
    const { size: parts, length: offset } = stored.records;
    if (stored.epoch !== epoch) stored.claims = [...stored.claims, { from: parts, epoch }];
    const now = this.#now();
    Object.assign(stored, { by, epoch, end: undefined, writtenAt: now, endsAt: now + liveMs });
    this.#tell(id, UNKNOWN);
    return { outcome: 'done', parts, offset };
  }

  async append(batch: ReplyBatch, bounds: EngineBounds): Promise<AppendOutcome> {
    const { id, from, records, epoch = 0 } = batch;
    const stored = this.#replies.get(id);
    if (stored === undefined) return 'gone';
    if (stored.end !== undefined || stored.epoch !== epoch) return refusalOf(stored);
    if (stored.records.size === from + records.length) return 'done';
    if (stored.records.size !== from) return 'behind';
    const refusal = this.#charge(stored, batchCharge(batch), bounds);
    if (refusal !== undefined) return refusal;
    for (const record of records) stored.records.append(record);
    stored.metadata.push(...batch.metadata);
    stored.writtenAt = this.#now();
    this.#tell(id, { from, records });
    return 'done';
  }

  async end(
    { id, parts, by, end, ttlMs, epoch = 0, why }: EngineEnd,
    bounds: EngineBounds,
  ): Promise<AppendOutcome> {
    const stored = this.#replies.get(id);
    if (stored === undefined) return 'gone';
    if (stored.epoch !== epoch) return 'ended';
    if (stored.end !== undefined) return stored.end.by === by ? 'done' : refusalOf(stored);
    if (parts !== undefined && stored.records.size !== parts) return 'behind';
    const charge = endCharge(end);
    const refusal = charge === 0 ? undefined : this.#charge(stored, charge, bounds);
    if (refusal !== undefined) return refusal;
    stored.end = { by, end, why };
    stored.records.trim();
    stored.endsAt = this.#now() + ttlMs;
    this.#tell(id, UNKNOWN);
    if (stored.by !== undefined && stored.by !== by) this.#listeners.get(stored.by)?.(id);
    return 'done';
  }

  async keep({ id, epoch = 0 }: ReplyKey, liveMs: number): Promise<KeepOutcome> {
    const stored = this.#replies.get(id);
    if (stored === undefined) return { outcome: 'gone' };
    if (stored.end !== undefined || stored.epoch !== epoch) return { outcome: refusalOf(stored) };
    stored.writtenAt = this.#now();
    stored.endsAt = stored.writtenAt + liveMs;
    return { outcome: 'done', followedMs: stored.writtenAt - stored.followedAt };
  }

  async drop({ id }: ReplyKey): Promise<void> {
    this.#replies.delete(id);
    this.#tell(id, UNKNOWN);
  }

  async find(id: string): Promise<EngineEntry | undefined> {
    const stored = this.#replies.get(id);
    return stored && this.#entryOf(stored);
  }

  async named(owner: string, name: string): Promise<EngineEntry | undefined> {
    const id = this.#names.get(keyOf(owner, name));
    return id === undefined ? undefined : await this.find(id);
  }

  async read(id: string, after: number): Promise<EnginePieces | undefined> {
    const stored = this.#replies.get(id);
    if (stored === undefined) return undefined;
    const records = stored.records.read(after, READ_SIZE, READ_PARTS);
    return {
      records,
      metadata: stored.metadata.findLast(([part]) => part <= after)?.[1],
      end: after + records.length >= stored.records.size ? stored.end?.end : undefined,
      ...(stored.claims.length > 0 && { claims: stored.claims }),
    };
  }

  async follow(id: string): Promise<EngineState | undefined> {
    const stored = this.#replies.get(id);
    if (stored === undefined) return undefined;
    const now = this.#now();
    stored.followedAt = now;
    const { end, records } = stored;
    return { parts: records.size, hasEnded: end !== undefined, ...this.#writerOf(stored) };
  }

  async list(owner: string, before = Infinity): Promise<EnginePage> {
    const older = this.#of(owner).filter(({ number }) => number < before);
    const page = older.toSorted((a, b) => b.number - a.number).slice(0, PAGE_SIZE);
    return {
      entries: page.map((stored) => this.#entryOf(stored)),
      before: page.length < older.length ? page.at(-1)?.number : undefined,
    };
  }

  async shared(): Promise<readonly string[]> {
    const all = [...this.#replies].map(([, stored]) => stored);
    const shared = all.filter(({ head }) => head.share !== undefined);
    const newest = shared.toSorted((a, b) => b.head.startedAt - a.head.startedAt || b.number - a.number);
    return newest.slice(0, MAX_SHARED).map(({ head }) => head.id);
  }

  watch(id: string, onNews: (news: ReplyNews) => void): () => void {
    const watchers = this.#watchers.get(id) ?? new Set();
    this.#watchers.set(id, watchers);
    watchers.add(onNews);
    queueMicrotask(() => {
      if (watchers.has(onNews)) onNews(UNKNOWN);
    });
    return () => {
      watchers.delete(onNews);
      if (watchers.size === 0 && this.#watchers.get(id) === watchers) this.#watchers.delete(id);
    };
  }

  listen(by: string, onEnded: (id: string | undefined) => void): () => void {
    this.#listeners.set(by, onEnded);
    queueMicrotask(() => this.#listeners.get(by)?.(undefined));
    return () => void this.#listeners.delete(by);
  }

  async vouch(sessionId: string, owner: string, hashes: readonly string[], ttlMs: number): Promise<void> {
    this.#proofs.set(sessionId, { owner, hashes, endsAt: this.#now() + ttlMs });
  }

  async prove(sessionId: string, hash: string): Promise<string | undefined> {
    const proof = this.#proofs.get(sessionId);
    return proof?.hashes.includes(hash) === true ? proof.owner : undefined;
  }

  async close(): Promise<void> {}

  #of(owner: string): Stored[] {
    return [...this.#replies].map(([, stored]) => stored).filter(({ head }) => head.owner === owner);
  }

  #bytesOf(owner: string): number {
    return this.#of(owner).reduce((sum, { bytes }) => sum + bytes, 0);
  }

  #charge(
    stored: Stored,
    size: number,
    { maxReplyBytes, maxOwnerBytes }: EngineBounds,
  ): 'reply_too_large' | 'over_budget' | undefined {
    if (stored.bytes + size > maxReplyBytes) return 'reply_too_large';
    if (this.#bytesOf(stored.head.owner) + size > maxOwnerBytes) return 'over_budget';
    stored.bytes += size;
    return undefined;
  }

  #writerOf({ head, by, epoch, writtenAt }: Stored): WrittenBy {
    return { by, epoch, source: head.source, idleMs: this.#now() - writtenAt };
  }

  #entryOf(stored: Stored): EngineEntry {
    const { head, records, end } = stored;
    const { at, failure } = end?.end ?? {};
    return {
      ...head,
      parts: records.size,
      end: at === undefined ? undefined : { at, failure: failure && NO_BYTES, metadata: undefined },
      ...this.#writerOf(stored),
    };
  }

  #tell(id: string, news: ReplyNews): void {
    for (const onNews of [...(this.#watchers.get(id) ?? [])]) onNews(news);
  }
}

/** The reply takes no more of this writer. */
function refusalOf({ end }: Stored): 'ended' | 'stopped' {
  return end?.why === 'stopped' ? 'stopped' : 'ended';
}
