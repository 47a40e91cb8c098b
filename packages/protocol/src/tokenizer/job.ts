import type { KeySource } from './short-key.js';

/** A segment that is merged window by window; see `long-segment.ts`. */
export interface LongSegment {
  readonly end: number;
  /** Tokens of the job before the segment. */
  readonly countBefore: number;
  /** Bytes of a window. */
  window: number;
  /** Bytes at the end of a window that the next window encodes again. */
  readonly overlap: number;
  /** Where the last appended token begins, or -1. */
  lastFrom: number;
}

/** An encoding in progress, which may be interrupted between any two of its steps. */
export interface EncodeJob extends KeySource {
  /** Bytes of UTF-8 to encode. */
  readonly length: number;
  /** Bytes done. */
  at: number;
  /** The IDs so far are `ids[0 .. count)`. */
  ids: Uint32Array;
  count: number;
  /** The end of the piece that `at` lies in. */
  pieceEnd: number;
  /** The segment that `at` lies in, if it takes several windows. */
  long: LongSegment | undefined;
}

/** @param ids room for IDs; it is replaced if it does not suffice. */
export function createJob(bytes: Uint8Array, view: DataView, length: number, ids: Uint32Array): EncodeJob {
  return { bytes, view, length, at: 0, ids, count: 0, pieceEnd: 0, long: undefined };
}

/** Makes room for `more` further IDs. */
export function reserve(job: EncodeJob, more: number): Uint32Array {
  if (job.count + more <= job.ids.length) return job.ids;
  const grown = new Uint32Array(Math.max(job.ids.length * 2, job.count + more));
  grown.set(job.ids.subarray(0, job.count));
  job.ids = grown;
  return grown;
}

/** Appends the first `count` IDs of `found`. */
export function append(job: EncodeJob, found: Int32Array, count: number): void {
  const ids = reserve(job, count);
  const at = job.count;
  for (let i = 0; i < count; i++) ids[at + i] = found[i] as number;
  job.count = at + count;
}
