import { append, type EncodeJob, type LongSegment } from './job.js';
import type { Merger } from './merge.js';

/**
 * Merges a segment window by window: its time is linear in its length, it needs the memory of one window, and
 * it can be interrupted.
 *
 * It is exact because **a sequence of tokens is the encoding of its bytes if every two neighbours in it are
 * the encoding of theirs.** Suppose it were not: then some merge would be the first to cross a boundary of
 * the sequence. Until then, both sides of that boundary were merged just as when those two tokens are encoded
 * by themselves, so the merge would happen there too, and they would not be their own encoding. The same
 * argument shows that every two neighbours in an encoding are the encoding of theirs.
 *
 * So each window is encoded, and its last tokens are dropped because the text after them might change them.
 * The next window begins at the first dropped token, and the two tokens at the join are checked by encoding
 * them together. If the check fails, the segment starts over with windows twice as long.
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
  append(job, merger.ids, kept);

  if (before >= 0 && !isEncoding(job, before, start, firstEnd, merger)) {
    job.at = segment.from;
    job.count = segment.countBefore;
    segment.window *= 2;
    segment.lastFrom = -1;
  }
}

/** Whether the bytes from `from` to `end` encode to exactly two tokens that meet at `middle`. */
function isEncoding(job: EncodeJob, from: number, middle: number, end: number, merger: Merger): boolean {
  return merger.merge(job, from, end) === 2 && from + (merger.starts[1] as number) === middle;
}
