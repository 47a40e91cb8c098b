import {
  type AppendOutcome,
  type ClaimOutcome,
  type EngineBounds,
  type EngineEnd,
  type EngineEntry,
  type EngineHead,
  type EnginePage,
  type EngineState,
  endCharge,
  framedLength,
  type KeepOutcome,
  NO_BYTES,
  type OpenOutcome,
  type ReplyBatch,
  type ReplyEngine,
  type ReplyKey,
  type ReplyNews,
  UNKNOWN,
} from '../backplane/replies.js';
import type { ReplyPieces } from '../replies/log.js';
import type { Seal, SealKey } from './keys.js';
import { openProof, ReplySeal, sealProof, type WriterKeys } from './reply-seal.js';

/** Replies that are read, whose keys are remembered. */
const MAX_KNOWN = 1_000;
/** A writer that has not said for so long that it writes is gone, in milliseconds. */
const WRITER_IDLE_MS = 300_000;
/** The place in a list: the key of the account, and what the engine has said. */
const ACCOUNT = 2 ** 44;

/** A reply that is written here. */
interface Writing {
  readonly seal: ReplySeal;
  readonly keys: WriterKeys;
  /** Parts that the engine has taken, and what their sealed records take. */
  parts: number;
  offset: number;
  lastMetadata: number;
  /** Reading of `performance.now()`. */
  usedAt: number;
}

/**
 * Kept replies in an engine that cannot read them, nor whose they are. Owners and names have others in the engine. It sees
 * when a reply began and ended, how many parts it has, and how long they are.
 *
 * A part that was changed, or is not the one that was written there, is refused with `authentication_failed`.
 */
export class SealedReplies implements ReplyEngine {
  readonly #engine: ReplyEngine;
  readonly #keys: Seal;
  readonly #writing = new Map<string, Writing>();
  readonly #known = new Map<string, ReplySeal>();
  /** Reading of `performance.now()`. */
  #sweptAt = 0;

  constructor(engine: ReplyEngine, keys: Seal) {
    this.#engine = engine;
    this.#keys = keys;
  }

  async open(head: EngineHead, bounds: EngineBounds, liveMs: number): Promise<OpenOutcome> {
    const { id, name, share } = head;
    this.#sweep();
    // A call that is repeated has the same keys.
    const writing = this.#writing.get(id) ?? begun(ReplySeal.begin(this.#keys, id));
    this.#writing.set(id, writing);
    const { seal } = writing;
    const sealed: EngineHead = {
      ...head,
      owner: ownerOf(seal.key, head.owner),
      principal: seal.sealHead(head),
      name: name && nameOf(seal.key, head.owner, name),
      share: share && 'true',
    };
    const outcome = await this.#engine.open(sealed, bounds, liveMs);
    if (outcome !== 'done') this.#writing.delete(id);
    return outcome;
  }

  async claim({ id, owner, epoch }: ReplyKey, by: string, liveMs: number): Promise<ClaimOutcome> {
    const seal = await this.#sealOf(id);
    if (seal === undefined) return { outcome: 'gone' };
    const claimed = await this.#engine.claim({ id, owner: ownerOf(seal.key, owner), epoch }, by, liveMs);
    if (claimed.outcome !== 'done') return claimed;
    const { parts, offset } = claimed;
    const pieces = await this.#engine.read(id, parts);
    if (pieces === undefined) return { outcome: 'gone' };
    seal.claims = pieces.claims ?? [];
    const lastMetadata = seal.lastMetadata(pieces);
    this.#writing.set(id, { ...begun(seal), parts, offset, lastMetadata });
    return claimed;
  }

  async append(batch: ReplyBatch, bounds: EngineBounds, liveMs: number): Promise<AppendOutcome> {
    const { id, owner, from, epoch } = batch;
    const writing = this.#writing.get(id);
    if (writing === undefined) return (await this.#engine.follow(id))?.hasEnded === true ? 'ended' : 'gone';
    writing.usedAt = performance.now();
    const { seal, keys, offset, parts } = writing;
    // What the engine has is not sealed again: a number is used for one part only.
    if (from !== parts) return from + batch.records.length === parts ? 'done' : 'behind';
    const { records, metadata, lastMetadata } = seal.sealParts(batch, writing.lastMetadata, keys);
    const sealed = { id, owner: ownerOf(seal.key, owner), epoch, from, offset, records, metadata };
    const outcome = await this.#engine.append(sealed, bounds, liveMs);
    // One that is told twice counts once.
    if (outcome === 'done' && writing.parts === parts) {
      writing.parts += records.length;
      writing.offset += records.reduce((sum, record) => sum + framedLength(record), 0);
      writing.lastMetadata = lastMetadata;
    }
    return outcome;
  }

  async end({ end, ...rest }: EngineEnd, bounds: EngineBounds): Promise<AppendOutcome> {
    const { id, owner, parts } = rest;
    const seal = await this.#sealOf(id);
    if (seal === undefined) return 'gone';
    const metadata = seal.sealEnd(end, parts);
    const sealed = { at: end.at, failure: end.failure && NO_BYTES, metadata };
    // An end that has room has room when it is sealed.
    const more = endCharge(sealed) - endCharge(end);
    const { maxReplyBytes, maxOwnerBytes } = bounds;
    const wider = { ...bounds, maxReplyBytes: maxReplyBytes + more, maxOwnerBytes: maxOwnerBytes + more };
    const key = { id, owner: ownerOf(seal.key, owner) };
    const outcome = await this.#engine.end({ ...rest, ...key, end: sealed }, wider);
    if (outcome !== 'reply_too_large' && outcome !== 'over_budget' && outcome !== 'behind')
      this.#finish(id, seal);
    return outcome;
  }

  async keep({ owner, id, epoch }: ReplyKey, liveMs: number): Promise<KeepOutcome> {
    const writing = this.#writing.get(id);
    if (writing !== undefined) writing.usedAt = performance.now();
    const seal = await this.#sealOf(id);
    if (seal === undefined) return { outcome: 'gone' };
    return await this.#engine.keep({ id, owner: ownerOf(seal.key, owner), epoch }, liveMs);
  }

  async drop({ owner, id }: ReplyKey): Promise<void> {
    const seal = await this.#sealOf(id);
    if (seal === undefined) return;
    await this.#engine.drop({ id, owner: ownerOf(seal.key, owner) });
    this.#writing.delete(id);
    this.#known.delete(id);
  }

  async find(id: string): Promise<EngineEntry | undefined> {
    const entry = await this.#engine.find(id);
    return entry && this.#opened(entry);
  }

  async named(owner: string, name: string): Promise<EngineEntry | undefined> {
    const found = await Promise.all(
      this.#keys.keys.map((key) => this.#engine.named(ownerOf(key, owner), nameOf(key, owner, name))),
    );
    const entries = found.filter((entry) => entry !== undefined).map((entry) => this.#opened(entry));
    return entries.toSorted((a, b) => b.startedAt - a.startedAt)[0];
  }

  async read(id: string, after: number): Promise<ReplyPieces | undefined> {
    const seal = await this.#sealOf(id);
    const pieces = seal && (await this.#engine.read(id, after));
    return pieces && seal?.openPieces(after, pieces);
  }

  async follow(id: string): Promise<EngineState | undefined> {
    return await this.#engine.follow(id);
  }

  /** Of the newest key first, so that it is newest first unless keys are being replaced. */
  async list(owner: string, before?: number): Promise<EnginePage> {
    const account = before === undefined ? 0 : Math.floor(before / ACCOUNT);
    const key = this.#keys.keys[account];
    if (key === undefined) return { entries: [], before: undefined };
    const rest = before === undefined ? 0 : before % ACCOUNT;
    const page = await this.#engine.list(ownerOf(key, owner), rest === 0 ? undefined : rest);
    const isLast = account + 1 >= this.#keys.keys.length;
    const next = isLast ? undefined : (account + 1) * ACCOUNT;
    return {
      entries: page.entries.map((entry) => this.#opened(entry)),
      before: page.before === undefined ? next : account * ACCOUNT + page.before,
    };
  }

  async shared(): Promise<readonly string[]> {
    return await this.#engine.shared();
  }

  watch(id: string, onNews: (news: ReplyNews) => void): () => void {
    return this.#engine.watch(id, (news) => {
      const seal = this.#writing.get(id)?.seal ?? this.#known.get(id);
      onNews(news === UNKNOWN || seal === undefined ? UNKNOWN : openedNews(seal, news));
    });
  }

  listen(by: string, onEnded: (id: string | undefined) => void): () => void {
    return this.#engine.listen(by, onEnded);
  }

  async vouch(sessionId: string, owner: string, hashes: readonly string[], ttlMs: number): Promise<void> {
    const key = this.#keys.newest;
    const sealed = hashes.map((hash) => hashOf(key, sessionId, hash));
    await this.#engine.vouch(sessionId, sealProof(key, sessionId, owner), sealed, ttlMs);
  }

  async prove(sessionId: string, hash: string): Promise<string | undefined> {
    for (const key of this.#keys.keys) {
      const proof = await this.#engine.prove(sessionId, hashOf(key, sessionId, hash));
      if (proof !== undefined) return openProof(key, sessionId, proof);
    }
    return undefined;
  }

  async close(): Promise<void> {
    await this.#engine.close();
  }

  /** @throws {ProtocolError} `authentication_failed`. */
  #opened(entry: EngineEntry): EngineEntry {
    const { seal, head } = ReplySeal.open(this.#keys, entry.id, entry.principal);
    this.#remember(entry.id, seal);
    return { ...entry, ...head };
  }

  async #sealOf(id: string): Promise<ReplySeal | undefined> {
    const seal = this.#writing.get(id)?.seal ?? this.#known.get(id);
    if (seal !== undefined) return seal;
    const entry = await this.#engine.find(id);
    return entry && this.#remember(id, ReplySeal.open(this.#keys, id, entry.principal).seal);
  }

  #remember(id: string, seal: ReplySeal): ReplySeal {
    const [oldest] = this.#known.keys();
    if (this.#known.size >= MAX_KNOWN && oldest !== undefined) this.#known.delete(oldest);
    this.#known.set(id, seal);
    return seal;
  }

  /** Nothing more is written of it, but it may be read. */
  #finish(id: string, seal: ReplySeal): void {
    if (this.#writing.delete(id)) this.#remember(id, seal);
  }

  /** Writers that have given up. */
  #sweep(): void {
    const due = performance.now() - WRITER_IDLE_MS;
    if (this.#sweptAt > due) return;
    this.#sweptAt = performance.now();
    for (const [id, { usedAt }] of this.#writing) if (usedAt <= due) this.#writing.delete(id);
  }
}

function begun(seal: ReplySeal): Writing {
  return { seal, keys: seal.lastWriter, parts: 0, offset: 0, lastMetadata: 0, usedAt: performance.now() };
}

function ownerOf(key: SealKey, owner: string): string {
  return key.nameOf('owner', owner);
}

function nameOf(key: SealKey, owner: string, name: string): string {
  // An ID of a reply is never a name.
  return `~${key.nameOf('name', owner, name)}`;
}

function hashOf(key: SealKey, sessionId: string, hash: string): string {
  return key.nameOf('token', sessionId, hash);
}

/** What does not open is read from the record, which says so. */
function openedNews(seal: ReplySeal, { from, records }: Exclude<ReplyNews, typeof UNKNOWN>): ReplyNews {
  try {
    return { from, records: seal.openParts(from, records) };
  } catch {
    return UNKNOWN;
  }
}
