import { type ReplyInfo, replyFields } from '@parlance/protocol/internal';
import type { ReplyEntry } from '../engine/logs/reply.js';

export interface ListOptions {
  /** The owner of the list. */
  readonly owner: string;
  /** Whether the owner may follow a reply of another one. Does not reject. */
  readonly mayFollow: (entry: ReplyEntry) => Promise<boolean>;
  /** Lets the event loop do other work. */
  readonly rest: () => Promise<void>;
  /** Aborts when the list is not wanted any more. */
  readonly signal: AbortSignal;
}

/** Replies in one part of a list, and questions that the application is asked at a time. */
const LIST_PIECE = 100;
/** Replies in all parts of a list. */
export const MAX_LISTED = 1_000;
/** Replies of others that one list asks the application about, the newest ones. */
export const MAX_ASKED = 1_000;

/** Lists replies, the newest first, as parts that are JSON lists; the last one may be empty. */
export async function* listReplies(
  entries: AsyncIterable<ReplyEntry> | Iterable<ReplyEntry>,
  { owner, mayFollow, rest, signal }: ListOptions,
): AsyncGenerator<{ readonly json: unknown }> {
  let [listed, asked] = [0, 0];
  let piece: ReplyEntry[] = [];
  const answer = async (): Promise<{ readonly json: unknown }> => {
    const allowed = await Promise.all(piece.map((entry) => entry.owner === owner || mayFollow(entry)));
    const shown = piece.filter((_, i) => allowed[i]).slice(0, MAX_LISTED - listed);
    listed += shown.length;
    piece = [];
    return { json: shown.map((entry) => replyFields(infoOf(entry, entry.owner === owner))) };
  };
  for await (const entry of entries) {
    if (entry.owner !== owner && ++asked > MAX_ASKED) continue;
    piece.push(entry);
    if (piece.length < LIST_PIECE) continue;
    yield await answer();
    await rest();
    if (listed === MAX_LISTED || signal.aborted) return;
  }
  yield await answer();
}

function infoOf(entry: ReplyEntry, isOwn: boolean): ReplyInfo {
  const { id, name, parts, startedAt, end, ttlMs } = entry;
  const state = end === undefined ? 'running' : end.failure === undefined ? 'complete' : 'failed';
  const expiresAt = end && end.at + ttlMs;
  return { id, name: isOwn ? name : undefined, isOwn, state, parts, startedAt, expiresAt };
}
