import { Fifo } from '../base/fifo.js';
import type { OutgoingBody } from './frame.js';

/** Memory of a kept message beside its bytes: the object and its place in the queue. */
const MESSAGE_MEMORY = 512;

export interface Kept {
  readonly body: OutgoingBody;
  /** The number of its last frame. */
  readonly frame: number;
}

/**
 * The written one-way messages that the peer has not confirmed, in the form that needs no context: their frames are
 * of no use to a rebuilt link.
 */
export class KeptMessages {
  /** Approximate bytes of memory taken by the messages. */
  memory = 0;
  /** Messages that the peer has confirmed since the last {@link take}. */
  confirmed = 0;
  readonly #messages = new Fifo<Kept>();

  get size(): number {
    return this.#messages.size;
  }

  /** Its state, which {@link add} restores. */
  snapshot(): Iterable<Kept> {
    return this.#messages;
  }

  add(body: OutgoingBody, frame: number): void {
    this.#messages.push({ body, frame });
    this.memory += memoryOf(body);
  }

  /** The peer has received `count` frames. */
  confirm(count: number): void {
    const messages = this.#messages;
    for (let first = messages.first; first !== undefined && first.frame <= count; first = messages.first) {
      messages.shift();
      this.confirmed++;
      this.memory -= memoryOf(first.body);
    }
  }

  /** Removes and returns all messages, oldest first. */
  take(): OutgoingBody[] {
    const bodies = [...this.#messages].map(({ body }) => body);
    this.clear();
    this.confirmed = 0;
    return bodies;
  }

  clear(): void {
    this.#messages.clear();
    this.memory = 0;
  }
}

const memoryOf = ({ bytes, metadata }: OutgoingBody): number =>
  bytes.length + (metadata?.length ?? 0) + MESSAGE_MEMORY;
