import { keyOf } from '../keys.js';
import { READ_PARTS, type ReplyEnd, type ReplyHead, type ReplyPieces } from '../replies/log.js';
import { RecordStore } from '../replies/record-store.js';
import {
  type AppendOutcome,
  batchCharge,
  type EngineBounds,
  type EngineEnd,
  type EngineEntry,
  type EnginePage,
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
  type ReplyEngine,
  type ReplyKey,
  type ReplyNews,
  UNKNOWN,
} from './replies.js';

interface Stored {
  readonly head: ReplyHead;
  /** Grows with each reply. */
  readonly number: number;
  readonly records: RecordStore;
  readonly metadata: (readonly [part: number, bytes: Uint8Array])[];
  bytes: number;
  /** Milliseconds of the clock, as the others. */
  endsAt: number;
  writtenAt: number;
  followedAt: number;
  end: { readonly by: string; readonly end: ReplyEnd } | undefined;
}

interface Proof {
  readonly owner: string;
  readonly hashes: readonly string[];
  readonly endsAt: number;
}

/** The kept replies of a cluster within one process. */
export class MemoryReplies implements ReplyEngine {
  readonly #now: () => number;
  readonly #replies = new Map<string, Stored>();
  readonly #names = new Map<string, string>();
  readonly #proofs = new Map<string, Proof>();
  readonly #watchers = new Map<string, Set<(news: ReplyNews) => void>>();
  #begun = 0;

  constructor(now: () => number) {
    this.#now = now;
  }

  async open(head: ReplyHead, bounds: EngineBounds, liveMs: number): Promise<OpenOutcome> {
    const { id, owner, name } = head;
    if (this.#find(id) !== undefined) return 'done';
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
    });
    if (name !== undefined) this.#names.set(keyOf(owner, name), id);
    return 'done';
  }

  async append(batch: ReplyBatch, bounds: EngineBounds): Promise<AppendOutcome> {
    const { id, from, records } = batch;
    const stored = this.#find(id);
    if (stored === undefined) return 'gone';
    if (stored.end !== undefined) return 'ended';
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

  async end({ id, parts, by, end, ttlMs }: EngineEnd, bounds: EngineBounds): Promise<AppendOutcome> {
    const stored = this.#find(id);
    if (stored === undefined) return 'gone';
    if (stored.end !== undefined) return stored.end.by === by ? 'done' : 'ended';
    if (parts !== undefined && stored.records.size !== parts) return 'behind';
    const charge = endCharge(end);
    const refusal = charge === 0 ? undefined : this.#charge(stored, charge, bounds);
    if (refusal !== undefined) return refusal;
    stored.end = { by, end };
    stored.records.trim();
    stored.endsAt = this.#now() + ttlMs;
    this.#tell(id, UNKNOWN);
    return 'done';
  }

  async keep({ id }: ReplyKey, liveMs: number): Promise<KeepOutcome> {
    const stored = this.#find(id);
    if (stored === undefined) return { outcome: 'gone' };
    if (stored.end !== undefined) return { outcome: 'ended' };
    stored.writtenAt = this.#now();
    stored.endsAt = stored.writtenAt + liveMs;
    return { outcome: 'done', followedMs: stored.writtenAt - stored.followedAt };
  }

  async drop({ id }: ReplyKey): Promise<void> {
    this.#forget(id);
    this.#tell(id, UNKNOWN);
  }

  async find(id: string): Promise<EngineEntry | undefined> {
    const stored = this.#find(id);
    return stored && this.#entryOf(stored);
  }

  async named(owner: string, name: string): Promise<EngineEntry | undefined> {
    const id = this.#names.get(keyOf(owner, name));
    return id === undefined ? undefined : await this.find(id);
  }

  async read(id: string, after: number): Promise<ReplyPieces | undefined> {
    const stored = this.#find(id);
    if (stored === undefined) return undefined;
    const records = stored.records.read(after, READ_SIZE, READ_PARTS);
    return {
      records,
      metadata: stored.metadata.findLast(([part]) => part <= after)?.[1],
      end: after + records.length >= stored.records.size ? stored.end?.end : undefined,
    };
  }

  async follow(id: string): Promise<EngineState | undefined> {
    const stored = this.#find(id);
    if (stored === undefined) return undefined;
    const now = this.#now();
    stored.followedAt = now;
    const { end, records, writtenAt } = stored;
    return { parts: records.size, hasEnded: end !== undefined, idleMs: now - writtenAt };
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
    const shared = [...this.#replies.values()].filter(({ head }) => head.share !== undefined);
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

  async vouch(sessionId: string, owner: string, hashes: readonly string[], ttlMs: number): Promise<void> {
    const now = this.#now();
    for (const [old, { endsAt }] of this.#proofs) if (endsAt <= now) this.#proofs.delete(old);
    this.#proofs.set(sessionId, { owner, hashes, endsAt: now + ttlMs });
  }

  async prove(sessionId: string, hash: string): Promise<string | undefined> {
    const proof = this.#proofs.get(sessionId);
    if (proof === undefined || proof.endsAt <= this.#now()) return undefined;
    return proof.hashes.includes(hash) ? proof.owner : undefined;
  }

  async close(): Promise<void> {}

  #find(id: string): Stored | undefined {
    const stored = this.#replies.get(id);
    if (stored === undefined || stored.endsAt > this.#now()) return stored;
    this.#forget(id);
    return undefined;
  }

  #forget(id: string): void {
    const head = this.#replies.get(id)?.head;
    this.#replies.delete(id);
    if (head?.name === undefined) return;
    const name = keyOf(head.owner, head.name);
    if (this.#names.get(name) === id) this.#names.delete(name);
  }

  #of(owner: string): Stored[] {
    for (const { head } of [...this.#replies.values()]) if (head.owner === owner) this.#find(head.id);
    return [...this.#replies.values()].filter(({ head }) => head.owner === owner);
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

  #entryOf({ head, records, end, writtenAt }: Stored): EngineEntry {
    const { at, failure } = end?.end ?? {};
    return {
      ...head,
      parts: records.size,
      end: at === undefined ? undefined : { at, failure: failure && NO_BYTES, metadata: undefined },
      idleMs: this.#now() - writtenAt,
    };
  }

  #tell(id: string, news: ReplyNews): void {
    for (const onNews of [...(this.#watchers.get(id) ?? [])]) onNews(news);
  }
}
