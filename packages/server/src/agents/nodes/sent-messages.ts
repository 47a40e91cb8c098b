import type { BodyToSend } from '@parlance/protocol';
import type { RelayedPlace, RelayTarget } from '../target.js';

/** A message that the node of its receiver has not written. */
export interface Sent extends RelayedPlace {
  /** Its number among the messages to the session, 0 until it is sent. */
  own: number;
  isAgain: boolean;
  readonly source: RelayTarget;
  readonly body: BodyToSend;
}

/** Messages to one session that were sent to its node, and that it has not written, in order. */
export class SentMessages {
  readonly #unwritten = new Map<number, Sent>();
  #last = 0;

  get size(): number {
    return this.#unwritten.size;
  }

  /** A message is sent, for the first time or again. Its number stays. */
  add(sent: Sent): void {
    sent.own ||= ++this.#last;
    this.#unwritten.set(sent.own, sent);
  }

  /** The session has a message. */
  handleTaken(own: number): void {
    this.#unwritten.get(own)?.onTaken();
  }

  /** A message is written. Returns it, unless that was known. */
  handleWritten(own: number): Sent | undefined {
    const sent = this.#unwritten.get(own);
    this.#unwritten.delete(own);
    return sent;
  }

  /** Returns the place of the message among the others; -1 if it is none of them. */
  handleRefused(own: number): number {
    const place = [...this.#unwritten.keys()].indexOf(own);
    this.#unwritten.delete(own);
    return place;
  }

  /** Removes all of them, as nothing more is known. @param isDoubtful whether they may have arrived. */
  takeAll(isDoubtful: boolean): readonly Sent[] {
    const all = [...this.#unwritten.values()];
    this.#unwritten.clear();
    for (const sent of all) sent.isAgain ||= isDoubtful;
    return all;
  }
}
