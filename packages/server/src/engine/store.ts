import type { EngineEnd, EngineHead, ReplyBatch } from './logs/logs.js';

/**
 * All that an engine keeps, for those who look at it as a whole: copies, and figures of an operator. Reads alone, and may be used
 * while nodes live.
 */
export interface EngineStore {
  /** Nodes whose leases are not over. */
  living(): Promise<readonly string[]>;
  /** Bytes that the engine takes; of an engine that cannot tell what is whose, those of all. Costs little, and may be asked each minute. */
  size(): Promise<number>;
  /**
   * All that outlives nodes and is not over: each item once, or more often if something else changes the engine meanwhile. Holds some
   * items at a time. Replies of one owner come in the order in which they began. A read that is not answered is made again for a few
   * seconds, because an export that fails has to be repeated from its beginning.
   */
  exports(): AsyncIterable<EngineItem>;
  /** Never rejects. */
  close(): Promise<void>;
}

/** The items that a copy of an engine has to have. Times are those that are left, in milliseconds. */
export type EngineItem = SessionItem | CapacityItem | KeyItem | EntryItem | ReplyItem | ProofItem;

/** A recorded session. Sessions that are over, or have only moved, are no items. */
export interface SessionItem {
  readonly kind: 'session';
  readonly id: string;
  readonly owner: string;
  readonly epoch: number;
  /** The number of the last write; 0 if its node has written nothing yet. */
  readonly number: number;
  readonly fields: ReadonlyMap<string, Uint8Array>;
  readonly ttlMs: number;
}

/** Bytes that a session has reserved. */
export interface CapacityItem {
  readonly kind: 'capacity';
  readonly account: string;
  readonly session: string;
  readonly bytes: number;
  readonly ttlMs: number;
}

/** The key of a table that nodes share. */
export interface KeyItem {
  readonly kind: 'key';
  readonly table: string;
  readonly key: string;
}

export interface EntryItem {
  readonly kind: 'entry';
  readonly table: string;
  readonly key: string;
  readonly entry: { readonly holder: string; readonly record: string };
}

/** A kept reply, whose parts are read with `ReplyLogs.read`. */
export interface ReplyItem {
  readonly kind: 'reply';
  /** With its last writer, and the epoch of that. */
  readonly head: EngineHead;
  readonly metadata: ReplyBatch['metadata'];
  readonly end: Pick<EngineEnd, 'by' | 'why' | 'end'> | undefined;
  /** It is found by its name: no newer one has it. */
  readonly isNamed: boolean;
  readonly ttlMs: number;
}

/** The owner for which a session without a principal acts. */
export interface ProofItem {
  readonly kind: 'proof';
  readonly session: string;
  readonly owner: string;
  readonly hashes: readonly string[];
  readonly ttlMs: number;
}
