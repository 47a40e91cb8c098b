import { type ReplyChanges, UNKNOWN } from '../engine/logs/logs.js';
import type { ReplyPieces } from '../engine/logs/reply.js';
import { Tail } from './tail.js';

/**
 * A reply of the engine that is followed at this node: the last parts that were published. Their numbers close the seam to
 * those that are read.
 */
export class Followed {
  readonly #watchers = new Set<() => void>();
  #tail = new Tail();
  /** The engine may have more parts than were published here. */
  #isStale = true;
  /** Counts the changes that make it stale. */
  #changes = 0;
  /** Why it cannot be read any more. */
  failure: unknown;
  /** It was seen before its end. */
  isRunning = false;
  hasEnded = false;

  get size(): number {
    return this.#watchers.size;
  }

  /** The number of the last part that is known. */
  get last(): number {
    return this.#tail.last;
  }

  get changes(): number {
    return this.#changes;
  }

  add(onChange: () => void): void {
    this.#watchers.add(onChange);
  }

  delete(onChange: () => void): void {
    this.#watchers.delete(onChange);
  }

  handleChanges(news: ReplyChanges): void {
    if (news === UNKNOWN) {
      this.#isStale = true;
      this.#changes++;
    } else if (news.from + news.records.length > this.#tail.last) {
      // Readers get parts that were missed in between from the engine.
      if (news.from > this.#tail.last) this.#tail = new Tail(news.from);
      for (const record of news.records.slice(this.#tail.last - news.from))
        this.#tail.push(record, Number.POSITIVE_INFINITY);
    }
    for (const onChange of [...this.#watchers]) onChange();
  }

  /** The reply in the engine is not as its node has written it: readers need not wait. */
  fail(error: unknown): void {
    this.failure = error;
    this.handleChanges(UNKNOWN);
  }

  /**
   * For a reader that has read up to part `after`; `undefined` if the engine has to be asked.
   *
   * @throws what it has failed with.
   */
  read(after: number): ReplyPieces | undefined {
    if (this.failure !== undefined) throw this.failure;
    const records = this.#tail.read(after);
    if (records === undefined || (records.length === 0 && this.#isStale)) return undefined;
    return { records, metadata: undefined, end: undefined };
  }

  /** The engine has answered. @param changes as it was when it was asked. */
  handleRead(after: number, { records, end }: ReplyPieces, changes: number): void {
    this.isRunning = end === undefined;
    if (end !== undefined) this.hasEnded = true;
    if (records.length > 0 || end !== undefined || changes !== this.#changes) return;
    // There was no more than this, and what was added since then is published.
    if (after > this.#tail.last) this.#tail = new Tail(after);
    this.#isStale = false;
  }
}
