import type { ReplyEntry } from '../engine/logs/reply.js';

/** Merges lists, each of which has its newest reply first. */
export async function* mergeNewest(lists: readonly AsyncIterable<ReplyEntry>[]): AsyncGenerator<ReplyEntry> {
  const iterators = lists.map((list) => list[Symbol.asyncIterator]());
  const heads = await Promise.all(iterators.map((iterator) => iterator.next()));
  try {
    for (;;) {
      let newest = -1;
      for (const [i, { done, value }] of heads.entries()) {
        if (done === true) continue;
        const best = heads[newest]?.value as ReplyEntry | undefined;
        if (best === undefined || value.startedAt > best.startedAt) newest = i;
      }
      const iterator = iterators[newest];
      if (iterator === undefined) return;
      yield heads[newest]?.value as ReplyEntry;
      heads[newest] = await iterator.next();
    }
  } finally {
    for (const iterator of iterators) await iterator.return?.();
  }
}
