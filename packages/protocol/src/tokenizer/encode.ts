import { type EncodeJob, reserve, take } from './job.js';
import { encodeWindow } from './long-segment.js';
import { Merger } from './merge.js';
import { MAX_CACHED_BYTES, MAX_CACHED_TOKENS, PieceCache } from './piece-cache.js';
import type { Scanner } from './scanner.js';
import { MAX_SHORT } from './short-key.js';
import { TokenCache } from './token-cache.js';
import { hashOf, NO_TOKEN, type TokenTable } from './token-table.js';

/**
 * From UTF-8 to token IDs. The scanner cuts the text into pieces. A piece that is a token is done;
 * most are. Any other falls apart into segments at the boundaries that no token crosses (see
 * `boundaries.ts`), and each segment is a token, is remembered, or is merged.
 */

/** Twice the longest token overlaps, so that the join of two windows hardly ever fails. */
const WINDOW = 2048;
const OVERLAP = 256;

export interface EncoderOptions {
  /** The first ID that the vocabulary does not have. */
  readonly limit: number;
  /** Below this ID, every token is what merging its bytes yields. */
  readonly mergeable: number;
  /** Bytes of a window of a long segment, and of the part that two windows share. */
  readonly window?: number;
  readonly overlap?: number;
}

export class Encoder {
  readonly merger: Merger;
  readonly #table: TokenTable;
  readonly #limit: number;
  readonly #window: number;
  readonly #overlap: number;
  readonly #scan: Scanner;
  /** Tokens that merging never yields: they stand only for a whole piece, never for a part of one. */
  readonly #unmergeable: ReadonlySet<number>;
  readonly #tokens = new TokenCache();
  readonly #pieces = new PieceCache();

  constructor(table: TokenTable, scan: Scanner, options: EncoderOptions) {
    this.#table = table;
    this.#scan = scan;
    this.#limit = options.limit;
    this.#window = options.window ?? WINDOW;
    this.#overlap = options.overlap ?? OVERLAP;
    this.merger = new Merger(table, options.limit);
    this.#unmergeable = unmergeableTokens(table, options.mergeable, options.limit, this.merger);
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
        const known = end - at <= MAX_SHORT ? tokens.read(view, at, end - at) : -1;
        const id = known >= 0 ? known : this.#find(job, at, end);
        job.pieceFrom = at;
        job.pieceEnd = end;
        if (id !== NO_TOKEN) {
          if (count === ids.length) {
            job.count = count;
            ids = reserve(job, 1);
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
    const start = job.at;
    if (job.long !== undefined) {
      encodeWindow(job, job.long, this.merger);
      if (job.at === job.long.end) job.long = undefined;
      return;
    }
    const end = this.#table.boundaries.next(job.bytes, start, job.pieceEnd);
    const length = end - start;
    if (length > this.#window) {
      const { count: countBefore } = job;
      job.long = {
        from: start,
        end,
        countBefore,
        window: this.#window,
        overlap: this.#overlap,
        lastFrom: -1,
      };
      return;
    }
    job.at = end;
    const isPart = length < job.pieceEnd - job.pieceFrom;
    if (isPart && this.#takeToken(job, start, end)) return;
    if (length > MAX_CACHED_BYTES) {
      const count = this.merger.merge(job, start, end);
      take(job, this.merger.ids, count);
      return;
    }
    const hash = hashOf(job.bytes, start, end);
    const remembered = this.#pieces.read(job, start, end, hash, reserve(job, MAX_CACHED_TOKENS), job.count);
    if (remembered > 0) {
      job.count += remembered;
      return;
    }
    const count = this.merger.merge(job, start, end);
    if (count <= MAX_CACHED_TOKENS) this.#pieces.write(job, start, end, hash, this.merger.ids, count);
    take(job, this.merger.ids, count);
  }

  /** Takes the part of a piece that is a token which merging yields. */
  #takeToken(job: EncodeJob, start: number, end: number): boolean {
    const known = end - start <= MAX_SHORT ? this.#tokens.read(job.view, start, end - start) : -1;
    const id = known >= 0 ? known : this.#find(job, start, end);
    if (id === NO_TOKEN || this.#unmergeable.has(id)) return false;
    const ids = reserve(job, 1);
    ids[job.count++] = id;
    return true;
  }
}

function unmergeableTokens(
  table: TokenTable,
  mergeable: number,
  limit: number,
  merger: Merger,
): ReadonlySet<number> {
  const found = new Set<number>();
  for (let id = mergeable; id < limit; id++) {
    const end = table.offsets[id + 1] as number;
    if (merger.merge(table, table.offsets[id] as number, end) > 1) found.add(id);
  }
  merger.work = 0;
  return found;
}
