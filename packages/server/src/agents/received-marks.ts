/** Senders that a session remembers. Beyond that it forgets the one that has been silent for longest. */
export const MAX_SENDERS = 256;

/** Which message of its sender it is, at all nodes. */
export interface MessageSequence {
  /** Greater than those of all messages that the sender has sent before. */
  readonly number: number;
  /** It may have been sent before. */
  readonly isAgain: boolean;
}

/** Told of what changes in a {@link ReceivedMarks}: see {@link ReceivedMarks.entries}; 0 means that a sender is forgotten. */
export type MarkChange = (sender: string, mark: number) => void;

/** Of a mark, that the session does not know what it had of the sender before. */
const UNSURE = 1;

/**
 * Which messages of other sessions a session has. Each sender numbers its messages upwards, in the order in which it has
 * sent them, and keeps their numbers when it continues at another node; so the last number of each sender is enough.
 */
export class ReceivedMarks {
  /** Twice the number of the last message, and {@link UNSURE}. */
  readonly #marks = new Map<string, number>();
  /** The sender that was heard last. */
  #latest: string | undefined;

  /**
   * Whether the session has a message. `unsure`: the message comes again, and the session did not know its sender when it
   * began to say again what it had said.
   */
  check(sender: string, { number, isAgain }: MessageSequence): 'new' | 'known' | 'unsure' {
    const mark = this.#marks.get(sender);
    if (mark !== undefined && 2 * number <= mark) return 'known';
    const isUnsure = mark === undefined || (mark & UNSURE) !== 0;
    return isAgain && isUnsure ? 'unsure' : 'new';
  }

  /** The session has a message that was not known. */
  add(sender: string, place: MessageSequence, onChange?: MarkChange): void {
    const mark = 2 * place.number + (this.check(sender, place) === 'unsure' ? UNSURE : 0);
    this.#set(sender, mark);
    onChange?.(sender, mark);
    if (this.#marks.size <= MAX_SENDERS) return;
    const [oldest] = this.#marks.keys();
    this.forget(oldest as string, onChange);
  }

  /** The one that was heard last comes last. */
  #set(sender: string, mark: number): void {
    if (sender !== this.#latest) this.#marks.delete(sender);
    this.#latest = sender;
    this.#marks.set(sender, mark);
  }

  /** A sender is over. */
  forget(sender: string, onChange?: MarkChange): void {
    if (this.#marks.delete(sender)) onChange?.(sender, 0);
  }

  /** Senders with a mark of their last messages, the one that was heard last at the end. */
  get entries(): readonly (readonly [sender: string, mark: number])[] {
    return [...this.#marks];
  }

  restore(entries: Iterable<readonly [sender: string, mark: number]>): void {
    for (const [sender, mark] of [...entries].slice(-MAX_SENDERS)) this.#set(sender, mark);
  }
}
