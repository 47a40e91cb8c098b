/**
 * Which message of a group it is. Each node numbers what its code sends to groups upwards, over all groups.
 */
export interface Sequence {
  /** The node. */
  readonly sender: string;
  readonly number: number;
  /** Of the message of the same group before it, of those that were for the reader; 0 if the sender does not know that. */
  readonly previous: number;
  /** The question that it answers; `undefined` if it was just sent. */
  readonly ask?: number | undefined;
}

/** `gap`: messages before it are missing, and have to be asked for. */
export type Verdict = 'new' | 'known' | 'gap';

/**
 * Which messages of a group one member has, or all members that have the same: the last number of each sender. Nothing is kept for
 * one that misses messages: it takes none until it was sent all of them again, in order.
 */
export class ReceivedMarks {
  readonly marks: Map<string, number>;
  /** By sender: what was asked, and is not answered. */
  readonly asks = new Map<string, number>();
  /** It has missed what came before the first message of a sender. */
  readonly #isStrict: boolean;

  constructor(isStrict: boolean, marks: Iterable<readonly [string, number]> = []) {
    this.#isStrict = isStrict;
    this.marks = new Map(marks);
  }

  check({ sender, number, previous, ask }: Sequence): Verdict {
    const asked = this.asks.get(sender);
    const mark = this.marks.get(sender);
    if (ask !== undefined) return ask === asked && number > (mark ?? 0) ? 'new' : 'known';
    if (mark === undefined && !this.#isStrict) return 'new';
    const last = mark ?? 0;
    if (number <= last) return 'known';
    if (previous <= last) return 'new';
    // The messages that it asked for come first, and this one comes again.
    return asked === undefined ? 'gap' : 'known';
  }

  take({ sender, number }: Pick<Sequence, 'sender' | 'number'>): void {
    this.marks.set(sender, Math.max(number, this.marks.get(sender) ?? 0));
  }

  /** A question was answered. Returns whether it was one of this. @param isHeard whether the answer was taken. */
  handleAnswered(sender: string, ask: number, last: number, isHeard = true): boolean {
    if (this.asks.get(sender) !== ask) return false;
    this.asks.delete(sender);
    if (isHeard) this.take({ sender, number: last });
    return isHeard;
  }

  /** A node is gone, and says nothing any more. */
  forget(sender: string): void {
    this.marks.delete(sender);
    this.asks.delete(sender);
  }
}
