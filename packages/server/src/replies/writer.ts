import type { ProtocolError } from '@parlance/protocol';
import type { EngineHead, ReplyBatch } from '../engine/logs/logs.js';
import type { ReplyEnd } from '../engine/logs/reply.js';
import { metadataOf } from './record.js';

/** Writes one reply. Its promises resolve when the engine has answered; `undefined` if it has answered at once. */
export interface Writer {
  readonly head: EngineHead;
  /** Nothing more is written. */
  readonly isOver: boolean;
  /** Reading of `performance.now()`. */
  readonly overSince: number;
  /** The requester may need parts that the engine has not taken. */
  readonly hasFailed: boolean;
  /** Bytes of memory that no engine counts. */
  readonly bytes: number;
  /** @default it has begun */
  open?(): Promise<void>;
  /** Resolves when there is room for the next part. @throws {ProtocolError} `reply_too_large`, `over_budget`. */
  append(record: Uint8Array): Promise<void> | undefined;
  /** The parts after a number; `undefined` if the engine is to be asked. */
  read(after: number): readonly Uint8Array[] | undefined;
  /** @throws {ProtocolError} `reply_too_large`, `over_budget`. */
  end(end: ReplyEnd): Promise<void> | undefined;
  /** Another node continues it: nothing more is written. */
  leave(): void;
  drop(): Promise<void> | undefined;
  /** Says that the reply is still written. @returns how long ago it was followed elsewhere, in milliseconds. Never rejects. */
  keep(): Promise<number>;
}

/** A reply is no longer kept, and the log has its end. */
export type OnFailed = (error: ProtocolError, why: Failing) => void;

/**
 * `full`: the log takes no more of it, and its handler continues for the requester. With the others the handler stops:
 * `fenced`: another node has ended the reply, or continues it; `stopped`: another node was asked to stop it.
 */
export type Failing = 'full' | 'fenced' | 'stopped';

/** Parts of a reply after those that are recorded, and their bytes. */
export function batchOf(
  { id, owner, epoch }: EngineHead,
  from: number,
  offset: number,
  records: readonly Uint8Array[],
): ReplyBatch {
  const metadata = records.flatMap((record, i) => {
    const bytes = metadataOf(record);
    return bytes === undefined ? [] : [[from + i + 1, bytes] as const];
  });
  return { id, owner, epoch, from, offset, records, metadata };
}
