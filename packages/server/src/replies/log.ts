import type { ProtocolError } from '@parlance/protocol';
import type { ReplyEnd, ReplyEntry, ReplyHead, ReplyPieces } from '../engine/logs/reply.js';

/** The record of kept replies, behind which an engine may stand. A call is answered at once or with a promise. */
export interface ReplyLog {
  /**
   * Begins a reply.
   *
   * @param onFailed the log takes no more of it, which is found out later.
   * @throws {ProtocolError} `too_many_replies`, `over_budget`.
   */
  open(reply: ReplyHead, onFailed?: OnFailed): Awaitable<void>;
  /** Adds a part. @throws {ProtocolError} `reply_too_large`, `over_budget`; nothing is added then. */
  append(id: string, record: Uint8Array): Awaitable<void>;
  /**
   * Adds the end; a reply that has ended stays as it is. An end of at most {@link SMALL_END} bytes is never refused.
   *
   * @throws {ProtocolError} `reply_too_large`, `over_budget`; the reply has no end then.
   */
  end(id: string, end: ReplyEnd): Awaitable<void>;
  /**
   * The parts after number `after`, as many as there are, up to some 16 KiB or {@link READ_PARTS} parts; `undefined` if
   * there is no such reply.
   *
   * @param isOn for a reader that has read up to there, and so needs no metadata. @default false
   */
  read(id: string, after: number, isOn?: boolean): Awaitable<ReplyPieces | undefined>;
  /**
   * As {@link read}, for the requester, who gets parts before they are on record if the log takes them at once.
   *
   * @default read
   */
  readOwn?(id: string, after: number): Promise<ReplyPieces | undefined>;
  /** Whether a reply of this node is followed at another one. @default not that the log knows */
  isFollowed?(id: string): Promise<boolean>;
  /** The requester of a reply that has ended needs it no more. @param isRead it was sent all of it. @default nothing */
  release?(id: string, isRead: boolean): void;
  /** Another node goes on with a reply: nothing more of it is written here. @default nothing */
  leave?(id: string): void;
  /** Stops a reply whose handler does not run here. @default nothing: there is none */
  cancel?(id: string): Promise<void>;
  /** Calls `onChange` after each part and the end, until the returned function is called. */
  watch(id: string, onChange: () => void): () => void;
  /** A reply by its ID, or the newest with this name of this owner. */
  find(target: { readonly id: string } | OwnedName): Awaitable<ReplyEntry | undefined>;
  /** The replies of an owner, and those of others that are shared, newest first. */
  list(owner: string): AsyncIterable<ReplyEntry> | Iterable<ReplyEntry>;
  /** Forgets a reply. */
  drop(id: string): Awaitable<void>;
  /** Forgets the replies whose time is over. @param now a reading of the clock of the log. */
  sweep(now: number): void;
  readonly usage: ReplyLogUsage;
}

/** Bytes of the failure and the metadata of an end that always has room. */
export const SMALL_END = 512;

/** A reply is no longer kept, and the log has its end. */
export type OnFailed = (error: ProtocolError, why: Failing) => void;

/**
 * `full`: the log takes no more of it, and its handler goes on for the requester. With the others the handler stops: `fenced`:
 * another node has ended the reply, or goes on with it; `stopped`: another node was asked to stop it.
 */
export type Failing = 'full' | 'fenced' | 'stopped';

export type Awaitable<Value> = Value | Promise<Value>;

export interface OwnedName {
  readonly owner: string;
  readonly name: string;
}

export interface ReplyLogUsage {
  readonly replies: number;
  /** Bytes of memory. */
  readonly bytes: number;
}
