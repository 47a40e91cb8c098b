import type { Fifo } from '../base/fifo.js';
import { Pacer, type RateName } from './rates.js';
import type { SendQueue } from './send-queue.js';

/** The sending side of the peer's rates: decides when to write, and keeps the queues that wait for that. */
export class Pacing extends Pacer {
  /** Queues whose next message may not begin yet, in order of turn. */
  #waiting: SendQueue[] = [];
  /** Was the first of them and may begin now. */
  #released: SendQueue | undefined;
  /** The last frame has used up the rate of bytes. Set by {@link lets}. */
  isSlowed = false;

  /** The rate for which something waits. @param hasTurn whether a queue can write a frame, but for the rates. */
  holdsBack(hasTurn: boolean): RateName | undefined {
    if (this.#waiting.length > 0) return 'messagesPerMinute';
    return this.isSlowed && hasTurn ? 'bytesPerSecond' : undefined;
  }

  /** Whether the rate of bytes allows a frame. Returns the first waiting queue to `ready` if the rate of messages does. */
  lets(ready: Fifo<SendQueue>, now: number): boolean {
    this.isSlowed = !this.mayWrite(now);
    if (this.isSlowed) return false;
    const [next] = this.#waiting;
    if (next === undefined || this.#released !== undefined || !this.mayBegin(now)) return true;
    this.#waiting.shift();
    ready.unshift(next);
    this.#released = next;
    return true;
  }

  /**
   * Whether a queue has to wait before its next message begins. Queues that wait begin first: stream IDs only grow, so no
   * request may overtake another.
   */
  defers(queue: SendQueue, now: number): boolean {
    if (queue === this.#released || (this.#waiting.length === 0 && this.mayBegin(now))) return false;
    this.#waiting.push(queue);
    return true;
  }

  /** A queue has had its turn, or is gone. Returns whether it has waited for one until now. */
  leave(queue: SendQueue): boolean {
    if (queue === this.#released) this.#released = undefined;
    if (!this.#waiting.includes(queue)) return false;
    this.#waiting = this.#waiting.filter((other) => other !== queue);
    return true;
  }

  clear(): void {
    this.#waiting = [];
    this.#released = undefined;
  }
}
