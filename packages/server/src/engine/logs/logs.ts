import { varintLength } from '@parlance/protocol/internal';
import {
  type DurableRequest,
  type ReplyEnd,
  type ReplyEntry,
  type ReplyHead,
  type ReplyPieces,
  SMALL_END,
} from './reply.js';

/**
 * Kept replies in the engine. A reply has one writer at a time and any number of readers. The first writer is
 * the node that its ID names; another one may claim it, with an epoch that is higher. Numbers make writing safe, not
 * clocks: a batch says in which epoch it is written and how many parts there were before it, and a reply that has ended
 * takes no more. Each call may be made again if its answer was lost.
 */
export interface ReplyLogs {
  /**
   * Begins a reply.
   *
   * @param liveMs how long it is kept without {@link keep}.
   * @throws {ProtocolError} `connection_failed`, `timeout`, as each method.
   */
  open(head: EngineHead, bounds: EngineBounds, liveMs: number): Promise<OpenOutcome>;
  /**
   * Continues a reply of another writer, which is refused from then on. One that was ended because its writer seemed
   * to be gone has no end any more.
   *
   * @param key with the epoch of the new writer.
   */
  claim(key: ReplyKey, by: string, liveMs: number): Promise<ClaimOutcome>;
  /** Adds parts, all of them or none, and tells followers. */
  append(batch: ReplyBatch, bounds: EngineBounds, liveMs: number): Promise<AppendOutcome>;
  /** Ends a reply, which is kept for its `ttlMs` from then on, and tells followers, and its writer if that is another node. */
  end(end: EngineEnd, bounds: EngineBounds): Promise<AppendOutcome>;
  /** Keeps a reply that is written; tells how long ago, in milliseconds, a node last said that it is followed. */
  keep(key: ReplyKey, liveMs: number): Promise<KeepOutcome>;
  /** Forgets a reply, and tells followers. */
  drop(key: ReplyKey): Promise<void>;
  find(id: string): Promise<EngineEntry | undefined>;
  /** The newest reply with a name, if it is still there. */
  named(owner: string, name: string): Promise<EngineEntry | undefined>;
  read(id: string, after: number): Promise<ReplyPieces | undefined>;
  /** Says that a reply is followed, and tells how far it is. */
  follow(id: string): Promise<EngineState | undefined>;
  /**
   * The replies of an owner, newest first, some at a time.
   *
   * @param before what the last call has returned; the last page may be empty. @default from the newest on
   */
  list(owner: string, before?: number): Promise<EnginePage>;
  /** The newest replies that others than their owner may follow, newest first; some may be gone. */
  shared(): Promise<readonly string[]>;
  /**
   * Calls `onChanges` for what is added to a reply from about now on, until the returned function is called: with
   * {@link UNKNOWN} once this is certain, and whenever something may have been missed.
   */
  watch(id: string, onChanges: (news: ReplyChanges) => void): () => void;
  /**
   * Calls `onEnded` with the ID of each reply of the writer `by` that another node has ended, until the returned function is
   * called: with `undefined` once this is certain, and whenever one may have been missed.
   */
  listen(by: string, onEnded: (id: string | undefined) => void): () => void;
  /** Says whom a session without a principal acts for. @param hashes of its resume tokens. */
  vouch(sessionId: string, owner: string, hashes: readonly string[], ttlMs: number): Promise<void>;
  /** The owner for which a session acts, if the hash is of one of its tokens. */
  prove(sessionId: string, hash: string): Promise<string | undefined>;
  /** Never rejects. */
  close(): Promise<void>;
}

export interface ReplyKey {
  readonly owner: string;
  readonly id: string;
  /** Of its writer. @default 0 */
  readonly epoch?: number | undefined;
}

/** A reply as its first writer begins it. */
export interface EngineHead extends ReplyHead {
  /** The node. @default the one that the ID names */
  readonly by?: string | undefined;
  /** @default 0 */
  readonly epoch?: number | undefined;
  readonly source?: DurableRequest | undefined;
}

export interface EngineBounds {
  /** Replies of one owner. */
  readonly maxReplies: number;
  /** Bytes, as {@link headCharge} and {@link batchCharge} count them. */
  readonly maxReplyBytes: number;
  readonly maxOwnerBytes: number;
}

export interface ReplyBatch extends ReplyKey {
  /** Parts before these. */
  readonly from: number;
  /** Bytes before these, as {@link framedLength} counts them. */
  readonly offset: number;
  readonly records: readonly Uint8Array[];
  /** Metadata by the number of the part that it came with. */
  readonly metadata: readonly (readonly [part: number, bytes: Uint8Array])[];
}

export interface EngineEnd extends ReplyKey {
  /** How many parts it must have; `undefined` if any number will do. */
  readonly parts: number | undefined;
  /** The node that ends it. */
  readonly by: string;
  readonly end: ReplyEnd;
  readonly ttlMs: number;
  /**
   * `orphaned`: its writer seems to be gone; `given_up`: a bound was met, so that the record is not the whole reply;
   * `stopped`: a session that may stop it has stopped it.
   *
   * @default its handler has ended
   */
  readonly why?: 'orphaned' | 'given_up' | 'stopped' | undefined;
}

export type OpenOutcome = 'done' | 'too_many_replies' | 'over_budget';
/**
 * `gone`: there is no such reply; `ended`: another node has ended or claimed it; `stopped`: another node has stopped it; `behind`:
 * parts that were recorded are lost. With the two bounds nothing is added.
 */
export type AppendOutcome =
  | 'done'
  | 'gone'
  | 'ended'
  | 'stopped'
  | 'behind'
  | 'reply_too_large'
  | 'over_budget';

export type KeepOutcome =
  | { readonly outcome: 'done'; readonly followedMs: number }
  | { readonly outcome: 'gone' | 'ended' | 'stopped' };

/** `over`: its handler has ended; `ended`: a writer of a later epoch has it. */
export type ClaimOutcome =
  | { readonly outcome: 'done'; readonly parts: number; readonly offset: number }
  | { readonly outcome: 'gone' | 'ended' | 'over' | 'given_up' };

/** The writer of a reply, as far as it is known. */
export interface WrittenBy {
  /** Milliseconds since it has written or kept it. */
  readonly idleMs: number;
  /** The node; `undefined` if the ID names it. */
  readonly by: string | undefined;
  readonly epoch: number;
  readonly source: DurableRequest | undefined;
}

export interface EngineState extends WrittenBy {
  readonly parts: number;
  readonly hasEnded: boolean;
}

/** The content of an end is left out. */
export interface EngineEntry extends ReplyEntry, WrittenBy {}

export interface EnginePage {
  readonly entries: readonly EngineEntry[];
  /** Where the next page begins; `undefined` after the last one. */
  readonly before: number | undefined;
}

/** Parts that were added after number `from`, or that something has changed. */
export type ReplyChanges =
  | { readonly from: number; readonly records: readonly Uint8Array[] }
  | typeof UNKNOWN;

export const UNKNOWN = 'unknown';
export const NO_BYTES = new Uint8Array(0);
/** Bytes of records that one call of `read` returns, about; and the parts of one page of a list. */
export const READ_SIZE = 16 * 1024;
export const PAGE_SIZE = 100;
/** Replies that others may follow, and that are remembered as such. */
export const MAX_SHARED = 1_000;

/** Bytes that a reply takes besides its parts, with an end of `SMALL_END` bytes. */
const HEAD_CHARGE = 2_368;
/** Bytes that metadata takes besides its own. */
const METADATA_CHARGE = 32;

/** Bytes of a record as it is kept: after its length. */
export function framedLength(record: Uint8Array): number {
  return varintLength(record.length) + record.length;
}

export function headCharge({ id, owner, principal, name, share }: ReplyHead): number {
  return [id, owner, principal, name, share].reduce(
    (sum, text) => sum + 2 * (text?.length ?? 0),
    HEAD_CHARGE,
  );
}

export function batchCharge({ records, metadata }: Pick<ReplyBatch, 'records' | 'metadata'>): number {
  const parts = records.reduce((sum, record) => sum + framedLength(record) + 1, 0);
  return metadata.reduce((sum, [, bytes]) => sum + METADATA_CHARGE + bytes.length, parts);
}

export function endCharge({ failure, metadata }: ReplyEnd): number {
  return Math.max(0, (failure?.length ?? 0) + (metadata?.length ?? 0) - SMALL_END);
}
