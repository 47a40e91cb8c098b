import { Merger } from './merge.js';
import { MAX_CACHED_BYTES, MAX_CACHED_TOKENS, PieceCache } from './piece-cache.js';
import type { Scanner } from './scanner.js';
import { type KeySource, MAX_SHORT } from './short-key.js';
import { TokenCache } from './token-cache.js';
import { hashOf, NO_TOKEN, type TokenTable } from './token-table.js';

/**
 * From UTF-8 to token IDs: the scanner cuts pieces; a piece that is a token is done; any other falls
 * apart at the boundaries that no token crosses, and its segments are looked up, remembered or merged.
 *
 * A segment longer than a window is merged window by window, so that no input takes more than linear
 * time, more than a window of memory, or more than a window of time between two looks at the budget.
 * What makes that exact: **a row of tokens is the encoding of its bytes if every two neighbours in it
 * are the encoding of theirs.** (Suppose not: then some merge would be the first to cross a boundary
 * of the row. Up to it, what happened on both sides of that boundary is what happens when these two
 * tokens are encoded by themselves, so that merge happens there too.) The same argument backwards
 * says that every two neighbours in an encoding are the encoding of theirs. So a window is encoded,
 * its last tokens, which might change with what follows, are dropped, the next window begins there,
 * and the join is tested by encoding two tokens. Should the test fail, the segment is
 * taken again with windows twice as long.
 */

const WINDOW = 8192;
/** Bytes at a window's end whose tokens are taken from the next one. */
const OVERLAP = 512;

/** An encoding under way. */
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
  /** A segment of more than a window: its end, and the state at its beginning, to go back to. */
  segmentEnd: number;
  segmentFrom: number;
  segmentCount: number;
  window: number;
  /** Where the last token begins that was taken from the segment, or -1. */
  lastFrom: number;
}

export function createJob(bytes: Uint8Array, view: DataView, length: number, ids: Uint32Array): EncodeJob {
  return {
    bytes,
    view,
    length,
    at: 0,
    ids,
    count: 0,
    pieceEnd: 0,
    segmentEnd: 0,
    segmentFrom: 0,
    segmentCount: 0,
    window: WINDOW,
    lastFrom: -1,
  };
}

export class Encoder {
  readonly merger: Merger;
  readonly #table: TokenTable;
  readonly #limit: number;
  readonly #scan: Scanner;
  /** Tokens that merging never yields: they stand only for a whole piece, never for a part of one. */
  readonly #unmergeable = new Set<number>();
  readonly #byteIds: Int32Array;
  readonly #tokens = new TokenCache();
  readonly #pieces = new PieceCache();

  /**
   * @param limit the first ID that the vocabulary does not have.
   * @param mergeable below this ID, every token is what merging its bytes yields.
   */
  constructor(table: TokenTable, limit: number, mergeable: number, scan: Scanner) {
    this.#table = table;
    this.#limit = limit;
    this.#scan = scan;
    this.#byteIds = byteIdsOf(table);
    this.merger = new Merger(table, limit, this.#byteIds);
    const source = { bytes: table.bytes, view: new DataView(table.bytes.buffer) };
    for (let id = mergeable; id < limit; id++) {
      const end = table.offsets[id + 1] as number;
      if (this.merger.merge(source, table.offsets[id] as number, end) > 1) this.#unmergeable.add(id);
    }
    this.merger.work = 0;
  }

  /** Goes on with a job for about `budget` bytes. */
  run(job: EncodeJob, budget: number): void {
    const { bytes, view, length } = job;
    const stop = Math.min(length, job.at + budget);
    const scan = this.#scan;
    const tokens = this.#tokens;
    let { at, ids, count } = job;
    while (at < stop) {
      if (at === job.pieceEnd) {
        const end = scan(bytes, at, length);
        job.pieceEnd = end;
        const known = end - at <= MAX_SHORT ? tokens.read(view, at, end - at) : -1;
        const id = known >= 0 ? known : this.#find(job, at, end);
        if (id !== NO_TOKEN) {
          if (count === ids.length) {
            job.count = count;
            ids = grow(job, 1);
          }
          ids[count++] = id;
          at = end;
          continue;
        }
      }
      job.at = at;
      job.count = count;
      this.#encodeSegment(job);
      at = job.at;
      count = job.count;
      ids = job.ids;
    }
    job.at = at;
    job.count = count;
    if (at === length) this.merger.release();
  }

  /** The token that is the bytes from `start` up to `end`, or NO_TOKEN. */
  #find(job: EncodeJob, start: number, end: number): number {
    const id = this.#table.find(job, start, end, this.#limit);
    if (end - start <= MAX_SHORT && id !== NO_TOKEN) this.#tokens.write(job.view, start, end - start, id);
    return id;
  }

  /** Encodes the next segment, or the next window of one, of a piece that is no token. */
  #encodeSegment(job: EncodeJob): void {
    const { bytes, at: start } = job;
    if (start < job.segmentEnd) {
      this.#encodeWindow(job);
      return;
    }
    const end = this.#table.boundaries.next(bytes, start, job.pieceEnd);
    const length = end - start;
    if (length > WINDOW) {
      job.segmentEnd = end;
      job.segmentFrom = start;
      job.segmentCount = job.count;
      job.window = WINDOW;
      job.lastFrom = -1;
      this.#encodeWindow(job);
      return;
    }
    const ids = job.count + length > job.ids.length ? grow(job, length) : job.ids;
    job.at = end;
    const known = length <= MAX_SHORT ? this.#tokens.read(job.view, start, length) : -1;
    if (known >= 0 && !this.#unmergeable.has(known)) {
      ids[job.count++] = known;
      return;
    }
    let hash = 0;
    if (length <= MAX_CACHED_BYTES) {
      hash = hashOf(bytes, start, end);
      const merged = this.#pieces.read(job, start, end, hash, ids, job.count);
      if (merged > 0) {
        job.count += merged;
        return;
      }
      const id = this.#find(job, start, end);
      if (id !== NO_TOKEN && !this.#unmergeable.has(id)) {
        ids[job.count++] = id;
        return;
      }
    }
    const count = this.merger.merge(job, start, end);
    if (length <= MAX_CACHED_BYTES && count <= MAX_CACHED_TOKENS) {
      this.#pieces.write(job, start, end, hash, this.merger.ids, count);
    }
    this.#keep(job, count);
  }

  #encodeWindow(job: EncodeJob): void {
    const { at: start, segmentEnd, lastFrom } = job;
    const { merger } = this;
    const end = Math.min(segmentEnd, start + job.window);
    let kept = merger.merge(job, start, end);
    const firstEnd = start + (merger.starts[1] as number);
    if (end < segmentEnd) {
      while (kept > 1 && start + (merger.starts[kept] as number) > end - OVERLAP) kept--;
    }
    job.at = start + (merger.starts[kept] as number);
    job.lastFrom = start + (merger.starts[kept - 1] as number);
    this.#keep(job, kept);
    if (lastFrom >= 0 && !this.#areNeighbours(job, lastFrom, start, firstEnd)) {
      job.at = job.segmentFrom;
      job.count = job.segmentCount;
      job.window *= 2;
      job.lastFrom = -1;
    }
  }

  /** Whether `bytes[from .. middle)` and `bytes[middle .. end)` are the encoding of both together. */
  #areNeighbours(job: EncodeJob, from: number, middle: number, end: number): boolean {
    return this.merger.merge(job, from, end) === 2 && from + (this.merger.starts[1] as number) === middle;
  }

  /** Takes the last merge's first `count` tokens. */
  #keep(job: EncodeJob, count: number): void {
    const found = this.merger.ids;
    const ids = job.count + count > job.ids.length ? grow(job, count) : job.ids;
    const at = job.count;
    for (let i = 0; i < count; i++) ids[at + i] = found[i] as number;
    job.count = at + count;
  }
}

/** Makes room for `more` IDs behind `job.count`. */
function grow(job: EncodeJob, more: number): Uint32Array {
  const grown = new Uint32Array(Math.max(job.ids.length * 2, job.count + more));
  grown.set(job.ids.subarray(0, job.count));
  job.ids = grown;
  return grown;
}

function byteIdsOf(table: TokenTable): Int32Array {
  const ids = new Int32Array(256).fill(NO_TOKEN);
  for (let id = 0; id < 256; id++) ids[table.bytes[table.offsets[id] as number] as number] = id;
  return ids;
}
