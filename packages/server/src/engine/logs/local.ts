import type {
  AppendOutcome,
  EngineBounds,
  EngineEnd,
  EngineHead,
  OpenOutcome,
  ReplyBatch,
  ReplyKey,
} from './logs.js';
import type { ReplyEntry } from './reply.js';

/** Replies of the only server of a process: charged is the memory that they take, and those that have ended make room for others. */
export interface Capacity {
  /** Of all owners. */
  readonly maxBytes: number;
  readonly onDropped: (reply: ReplyEntry) => void;
}

/** The calls of writers, which are answered at once here. */
export interface LocalReplies {
  /** @throws {ProtocolError} `too_many_replies`, `over_budget`, `reply_too_large`, as {@link append} and {@link end}: then nothing is added. */
  open(head: EngineHead, bounds: EngineBounds, liveMs: number): OpenOutcome;
  append(batch: ReplyBatch, bounds: EngineBounds): AppendOutcome;
  end(end: EngineEnd, bounds: EngineBounds): AppendOutcome;
  drop(key: Pick<ReplyKey, 'id'>): void;
  /** The requester of a reply needs it no more. @param isRead it was sent all of it. */
  release(id: string, isRead: boolean): void;
  /** Forgets the replies whose time is over. */
  sweep(): void;
  readonly usage: { readonly replies: number; readonly bytes: number };
}
