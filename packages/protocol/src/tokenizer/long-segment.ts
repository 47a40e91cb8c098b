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
 * them together. If the check fails, windows become twice as long, and the next one begins that far back. The tokens
 * before it stay, as their neighbours were checked. So a text that makes joins fail costs a few of its windows, not all
 * that was done.
 */

/** Encodes the next window of `segment`, which begins at `job.at`. */
export function encodeWindow(job: EncodeJob, segment: LongSegment, merger: Merger): void {
  const { at: start, count: countBefore } = job;
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
    job.count = countBefore;
    job.at = start;
    goBack(job, segment, merger);
  }
}

/** Takes back tokens of the segment for as many bytes as a window now has, or all of them. */
function goBack(job: EncodeJob, segment: LongSegment, merger: Merger): void {
  segment.window *= 2;
  const until = job.at - segment.window;
  while (job.count > segment.countBefore && job.at > until) {
    job.at -= merger.lengthOf(job.ids[--job.count] as number);
  }
  const isAtStart = job.count === segment.countBefore;
  segment.lastFrom = isAtStart ? -1 : job.at - merger.lengthOf(job.ids[job.count - 1] as number);
}

/** Whether the bytes from `from` to `end` encode to exactly two tokens that meet at `middle`. */
function isEncoding(job: EncodeJob, from: number, middle: number, end: number, merger: Merger): boolean {
  return merger.merge(job, from, end) === 2 && from + (merger.starts[1] as number) === middle;
}
