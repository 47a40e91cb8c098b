import type { Recorder } from './recorder.js';

/** Server: how far the one-way messages of a client have come, by their numbers. */
export class ClientMessages {
  /** The last one that has arrived. */
  received = 0;
  /** All up to this one are handled. */
  handled = 0;
  /** All up to this one are recorded as handled. */
  #recorded = 0;
  /** All up to this one may have reached the application of a former process. */
  #redelivered = 0;
  /** Messages for other clients that are not settled; `true` if they are, but that is not recorded yet. */
  readonly #open = new Map<number, boolean>();
  readonly #recorder: Recorder;

  constructor(recorder: Recorder) {
    this.#recorder = recorder;
  }

  /** Continues from the record of another process. */
  restore(handled: number, open: Iterable<number>): void {
    this.handled = this.#recorded = handled;
    for (const number of open) this.#open.set(number, false);
    this.received = this.#settledUpTo;
  }

  /** The next one has arrived. `isOver` if a process before has handled it, unlike one that came earlier. */
  take(isForAgent: boolean): {
    readonly number: number;
    readonly isOver: boolean;
    readonly redelivered: boolean;
  } {
    const number = ++this.received;
    const isOpen = this.#open.has(number);
    const isOver = number <= this.handled && !isOpen;
    if (!isOver && isForAgent && !isOpen) this.#open.set(number, false);
    return { number, isOver, redelivered: number <= this.#redelivered };
  }

  /** The record says that it is handled, so the client need not keep it. */
  isDurable(number: number): boolean {
    return number <= this.#recorded && !this.#open.has(number);
  }

  handle(number: number): void {
    if (number <= this.handled || number > this.received) return;
    for (let each = this.handled + 1; each <= number; each++)
      if (this.#open.has(each)) this.#recorder.opened(each);
    this.handled = number;
    this.#recorder.handled(number);
    this.#recorder.after(() => {
      this.#recorded = Math.max(this.#recorded, number);
    });
  }

  isOpen(number: number): boolean {
    return this.#open.get(number) === false;
  }

  settle(number: number): void {
    if (this.#open.get(number) !== false) return;
    if (number > this.handled) {
      this.#open.delete(number);
      return;
    }
    this.#open.set(number, true);
    this.#recorder.settled(number);
    this.#recorder.after(() => this.#open.delete(number));
  }

  /**
   * The numbers of a page that was loaded again continue after `written`. Returns how many messages of pages before are not
   * recorded as handled, and will not arrive.
   */
  skipTo(written: number): number {
    const open = [...this.#open.keys()];
    const lost = written - this.handled + open.length;
    if (lost <= 0) return 0;
    for (const number of open) this.settle(number);
    this.handled = this.#recorded = this.received = written;
    this.#recorder.handled(written);
    return lost;
  }

  /**
   * The client writes again what is not handled.
   *
   * @param sent what it has had acknowledged: that is handled, even if the engine has forgotten it.
   * @param written what it has written.
   */
  awaitAgain(sent: number, written: number): void {
    for (const number of this.#open.keys()) if (number <= sent) this.settle(number);
    if (sent > this.handled) {
      this.handled = this.#recorded = sent;
      this.#recorder.handled(sent);
    }
    this.received = Math.max(this.#settledUpTo, sent);
    this.#redelivered = Math.max(this.#redelivered, written);
  }

  /** All messages up to this one are handled, and none of them is open. */
  get #settledUpTo(): number {
    let first = this.handled + 1;
    for (const number of this.#open.keys()) first = Math.min(first, number);
    return first - 1;
  }
}
