import { type EncodeJob, type LongSegment, take } from './job.js';
import type { Merger } from './merge.js';

/**
 * A segment that is merged window by window, so that it takes a time that grows with its length and no
 * faster, the memory of a window, and can be interrupted.
 *
 * What makes that exact: **a row of tokens is the encoding of its bytes if every two neighbours in it
 * are the encoding of theirs.** Suppose it were not: then some merge would be the first to cross a
 * boundary of the row. Up to it, what happened on both sides of that boundary is what happens when
 * those two tokens are encoded by themselves, so it would happen there too, and they would not be
 * their own encoding. The same argument shows that every two neighbours in an encoding are the
 * encoding of theirs.
 *
 * So a window is encoded; its last tokens, which what follows might change, are dropped; the next
 * window begins in their place; and the two tokens at the join are tested by encoding them. Should the
 * test fail, the segment begins again with windows twice as long.
 */

/** Encodes the next window of `segment`, which begins at `job.at`. */
export function encodeWindow(job: EncodeJob, segment: LongSegment, merger: Merger): void {
  const start = job.at;
  const end = Math.min(segment.end, start + segment.window);
  let kept = merger.merge(job, start, end);
  const tokenAt = (index: number) => start + (merger.starts[index] as number);
  if (end < segment.end) while (kept > 1 && tokenAt(kept) > end - segment.overlap) kept--;
  const firstEnd = tokenAt(1);
  const before = segment.lastFrom;
  job.at = tokenAt(kept);
  segment.lastFrom = tokenAt(kept - 1);
  take(job, merger.ids, kept);

  if (before >= 0 && !isEncoding(job, before, start, firstEnd, merger)) {
    job.at = segment.from;
    job.count = segment.countBefore;
    segment.window *= 2;
    segment.lastFrom = -1;
  }
}

/** Whether the bytes up to `middle` and those from there on are the encoding of both together. */
function isEncoding(job: EncodeJob, from: number, middle: number, end: number, merger: Merger): boolean {
  return merger.merge(job, from, end) === 2 && from + (merger.starts[1] as number) === middle;
}
