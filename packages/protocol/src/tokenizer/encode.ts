import { append, type EncodeJob, reserve } from './job.js';
import { encodeWindow } from './long-segment.js';
import { Merger } from './merge.js';
import { MAX_CACHED_BYTES, MAX_CACHED_TOKENS, PieceCache } from './piece-cache.js';
import type { Scanner } from './scanner.js';
import { MAX_SHORT } from './short-key.js';
import { TokenCache, UNKNOWN } from './token-cache.js';
import { hashOf, NO_TOKEN, type TokenTable } from './token-table.js';

/**
 * From UTF-8 to token IDs. The scanner cuts the text into pieces. Most pieces are tokens and need nothing
 * more. Any other is split at the boundaries that no token crosses (see `boundaries.ts`), and each part is
 * either a token or merged. The results for short pieces and parts are cached.
 */

/** Windows overlap by twice the longest token, so that the join of two windows hardly ever fails. */
const WINDOW = 2048;
const OVERLAP = 256;

export interface EncoderOptions {
  /** The first ID that the vocabulary does not have. */
  readonly limit: number;
  /** Every token below this ID is the result of merging its bytes. */
  readonly mergeable: number;
  /** Bytes of a window of a long segment, and of the part that two windows share. For tests. */
  readonly window?: number;
  readonly overlap?: number;
}

export class TokenEncoder {
  readonly merger: Merger;
  readonly #table: TokenTable;
  readonly #limit: number;
  readonly #window: number;
  readonly #overlap: number;
  readonly #scan: Scanner;
  /** Tokens that merging never yields: they can only be a whole piece, never a part of one. */
  readonly #unmergeable: ReadonlySet<number>;
  /** The kind under which tokens of parts are cached: that of pieces, unless the two can differ. */
  readonly #partKind: number;
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
    this.#partKind = this.#unmergeable.size > 0 ? 1 : 0;
  }

  /** Continues a job for about `budget` bytes. */
  run(job: EncodeJob, budget: number): void {
    const { bytes, view, length } = job;
    const stop = Math.min(length, job.at + budget);
    const scan = this.#scan;
    const tokens = this.#tokens;
    let { at, ids, count, pieceEnd } = job;
    while (at < stop) {
      let known = UNKNOWN;
      const isNew = at === pieceEnd;
      if (isNew) {
        pieceEnd = scan(bytes, at, length);
        if (pieceEnd - at <= MAX_SHORT) known = tokens.read(view, at, pieceEnd - at);
        if (isToken(known) && count < ids.length) {
          ids[count++] = known;
          at = pieceEnd;
          continue;
        }
      }
      job.at = at;
      job.count = count;
      job.pieceEnd = pieceEnd;
      if (isNew) this.#encodePiece(job, known);
      else this.#encodeNext(job);
      at = job.at;
      count = job.count;
      ids = job.ids;
    }
    job.at = at;
    job.count = count;
    job.pieceEnd = pieceEnd;
    if (at === length) this.merger.release();
  }

  /**
   * Encodes the piece at `job.at`, unless it is a long one that is not a token.
   *
   * @param known what the token cache returned for it.
   */
  #encodePiece(job: EncodeJob, known: number): void {
    const { at: start, pieceEnd: end } = job;
    if (isToken(known)) {
      appendOne(job, known, end);
    } else if (end - start <= MAX_CACHED_BYTES) {
      this.#encodeShort(job, start, end, known, false);
    } else {
      const id = this.#table.find(job, start, end, this.#limit);
      if (isToken(id)) appendOne(job, id, end);
    }
  }

  /** Encodes the next part of a long piece, or the next window of such a part. */
  #encodeNext(job: EncodeJob): void {
    if (job.long !== undefined) {
      encodeWindow(job, job.long, this.merger);
      if (job.at === job.long.end) job.long = undefined;
      return;
    }
    const { at: start, count: countBefore } = job;
    const end = this.#table.boundaries.next(job.bytes, start, job.pieceEnd);
    if (end - start > this.#window) {
      job.long = {
        end,
        countBefore,
        window: this.#window,
        overlap: this.#overlap,
        lastFrom: -1,
      };
    } else {
      this.#encodePart(job, start, end);
    }
  }

  #encodePart(job: EncodeJob, start: number, end: number): void {
    const length = end - start;
    if (length > MAX_CACHED_BYTES) {
      this.#merge(job, start, end);
      return;
    }
    const known = length <= MAX_SHORT ? this.#tokens.read(job.view, start, length) : UNKNOWN;
    if (isToken(known) && !this.#unmergeable.has(known)) appendOne(job, known, end);
    else this.#encodeShort(job, start, end, known, true);
  }

  /**
   * Encodes a piece or part of at most MAX_CACHED_BYTES.
   *
   * @param known what the token cache returned, which is not a usable token.
   * @param isPart whether it is part of a piece; its tokens are then those that merging yields.
   */
  #encodeShort(job: EncodeJob, start: number, end: number, known: number, isPart: boolean): void {
    const isShort = end - start <= MAX_SHORT;
    const hash = hashOf(job.view, start, end);
    const kind = isPart ? this.#partKind : 0;
    if (known === UNKNOWN) {
      if (!isShort && this.#recall(job, start, end, hash, kind)) return;
      const id = this.#table.find(job, start, end, this.#limit);
      if (isShort) this.#tokens.write(job.view, start, end - start, id);
      if (isToken(id) && !(isPart && this.#unmergeable.has(id))) {
        appendOne(job, id, end);
        if (!isShort) this.#remember(job, start, end, hash, kind, job.count - 1);
        return;
      }
    }
    if (isShort && this.#recall(job, start, end, hash, kind)) return;
    const countBefore = job.count;
    const partEnd = isPart ? end : this.#table.boundaries.next(job.bytes, start, end);
    if (partEnd === end) {
      this.#merge(job, start, end);
    } else {
      this.#encodePart(job, start, partEnd);
      while (job.at < end) this.#encodePart(job, job.at, this.#table.boundaries.next(job.bytes, job.at, end));
    }
    this.#remember(job, start, end, hash, kind, countBefore);
  }

  #merge(job: EncodeJob, start: number, end: number): void {
    const count = this.merger.merge(job, start, end);
    append(job, this.merger.ids, count);
    job.at = end;
  }

  /** Appends the cached tokens of these bytes; returns false if there are none. */
  #recall(job: EncodeJob, start: number, end: number, hash: number, kind: number): boolean {
    const ids = reserve(job, MAX_CACHED_TOKENS);
    const count = this.#pieces.read(job, start, end, hash, kind, ids, job.count);
    if (count === 0) return false;
    job.count += count;
    job.at = end;
    return true;
  }

  /** Caches the job's tokens from `from` on for these bytes. */
  #remember(job: EncodeJob, start: number, end: number, hash: number, kind: number, from: number): void {
    if (job.count - from > MAX_CACHED_TOKENS) return;
    this.#pieces.write(job, start, end, hash, kind, job.ids, from, job.count);
  }
}

/** Whether `id` is neither UNKNOWN nor NO_TOKEN. */
function isToken(id: number): boolean {
  return id >= 0 && id !== NO_TOKEN;
}

/** Appends the token that the bytes up to `end` form. */
function appendOne(job: EncodeJob, id: number, end: number): void {
  const ids = reserve(job, 1);
  ids[job.count++] = id;
  job.at = end;
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
