import { type EngineBounds, framedLength, type ReplyBatch, type ReplyLogs } from '../logs/logs.js';
import type { ReplyHead } from '../logs/reply.js';

/** Values that tests of logs write. */

export const LIVE_MS = 60_000;
export const BOUNDS: EngineBounds = { maxReplies: 1_000, maxReplyBytes: 4 << 20, maxOwnerBytes: 32 << 20 };

let ids = 0;
export const headOf = (rest: Partial<ReplyHead> = {}): ReplyHead => ({
  id: `reply_${String(ids++).padStart(22, '0')}`,
  owner: 'principal:ada',
  principal: 'ada',
  name: undefined,
  share: undefined,
  encoding: undefined,
  ttlMs: LIVE_MS,
  startedAt: Date.now(),
  ...rest,
});

export const text = (value: string) => new TextEncoder().encode(value);
export const recordOf = (value: string) => Uint8Array.from([0, ...text(value)]);
export const sizeOf = (records: readonly Uint8Array[]) =>
  records.reduce((sum, record) => sum + framedLength(record), 0);

/** Parts of one reply after those before. */
export function batchOf(
  { id, owner }: ReplyHead,
  before: readonly Uint8Array[],
  records: readonly Uint8Array[],
  metadata: ReplyBatch['metadata'] = [],
): ReplyBatch {
  return { id, owner, from: before.length, offset: sizeOf(before), records, metadata };
}

export const endOf = (
  { id, owner, ttlMs }: ReplyHead,
  parts: number | undefined,
  by = 'aaaaaa',
  failure?: Uint8Array,
) => ({
  id,
  owner,
  parts,
  by,
  ttlMs,
  end: { at: 1_700_000_000_000, failure, metadata: undefined },
});

export async function readAll(logs: ReplyLogs, id: string, after = 0): Promise<Uint8Array[]> {
  const records: Uint8Array[] = [];
  for (;;) {
    const pieces = await logs.read(id, after + records.length);
    if (pieces === undefined || pieces.records.length === 0) return records;
    records.push(...pieces.records);
  }
}
