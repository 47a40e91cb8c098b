import { ProtocolError } from '../../base/errors.js';

export interface StreamQueueOptions {
  /** How many more streams may be opened now. */
  readonly free: () => number;
  /** The streams of which one has to end before another may be opened, such as "all 4 requests that the peer allows at a time". */
  readonly limit: () => string;
  /** Bytes of memory that may wait: the limit `sessionMemory`. */
  readonly most: number;
}

interface Waiting {
  readonly begin: () => void;
  /** Bytes of memory. */
  size: number;
  /** Called when it has its stream, or will never have one. */
  onOver?: () => void;
}

/** Bytes of memory of a request that waits, beside its body. */
const WAITING_MEMORY = 512;

/**
 * Requests that wait until another stream may be opened, in the order of their calls.
 *
 * @typeParam Key what a request is found by.
 */
export class StreamQueue<Key> {
  readonly #options: StreamQueueOptions;
  #waiting: Map<Key, Waiting> | undefined;
  #bytes = 0;
  #isWaking = false;

  constructor(options: StreamQueueOptions) {
    this.#options = options;
  }

  /** Bytes of memory of what waits. */
  get bytes(): number {
    return this.#bytes;
  }

  /** The streams of which one has to end first. */
  get limit(): string {
    return this.#options.limit();
  }

  /** There is a stream, and nothing waits for one. */
  get isOpen(): boolean {
    return this.#waiting === undefined && this.#options.free() > 0;
  }

  has(key: Key): boolean {
    return this.#waiting?.has(key) === true;
  }

  /**
   * Waits behind what waits already.
   *
   * @param size bytes that are held meanwhile.
   * @param begin opens the stream. Must not throw.
   * @throws {ProtocolError} `too_many_streams` if too much waits.
   */
  enter(key: Key, size: number, begin: () => void): void {
    this.#charge(WAITING_MEMORY + size);
    this.#waiting ??= new Map();
    this.#waiting.set(key, { begin, size: WAITING_MEMORY + size });
  }

  /**
   * Adds to the memory of a request that waits.
   *
   * @throws {ProtocolError} `too_many_streams` if too much waits.
   */
  grow(key: Key, size: number): void {
    const waiting = this.#waiting?.get(key);
    if (waiting === undefined) return;
    this.#charge(size);
    waiting.size += size;
  }

  #charge(size: number): void {
    const { most } = this.#options;
    if (this.#bytes + size > most) {
      const message = `${this.limit} are open, and ${most} bytes at most wait (sessionMemory)`;
      throw new ProtocolError('too_many_streams', message);
    }
    this.#bytes += size;
  }

  /** Takes a request out of the queue. Returns whether it was waiting. */
  leave(key: Key): boolean {
    const waiting = this.#waiting?.get(key);
    if (waiting === undefined) return false;
    this.#waiting?.delete(key);
    if (this.#waiting?.size === 0) this.#waiting = undefined;
    this.#bytes -= waiting.size;
    waiting.onOver?.();
    return true;
  }

  /** Resolves when it has its stream, or will never have one; `undefined` if it does not wait. */
  over(key: Key): Promise<void> | undefined {
    const waiting = this.#waiting?.get(key);
    if (waiting === undefined) return undefined;
    return new Promise((resolve) => {
      waiting.onOver = resolve;
    });
  }

  /** Begins what has waited, as far as there are streams. */
  wake(): void {
    if (this.#waiting === undefined || this.#isWaking) return;
    this.#isWaking = true;
    for (const [key, { begin }] of this.#waiting) {
      if (this.#options.free() <= 0) break;
      this.leave(key);
      begin();
    }
    this.#isWaking = false;
  }
}
