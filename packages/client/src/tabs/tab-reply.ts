import type { Limits, Message, Metadata, ReplyStream } from '@parlance/protocol';
import { Inbox, ProtocolError, replyFields, SELF, showAs, workAsTheyAre } from '@parlance/protocol/client';
import { PART_WINDOW } from './bounds.js';
import { chargeOfMessage, type PackedMessage, SharedMessage } from './packed-message.js';
import type { ReplyHead } from './protocol.js';

export interface TabReplyOptions {
  readonly limits: Limits;
  /** The reader has taken this much. */
  readonly onTaken: (charge: number) => void;
  /** The reply was cancelled before its end; called once. */
  readonly onCancelled: () => void;
}

/** The reader's progress is reported when it has taken this much, long before the host waits for it. */
const REPORT = PART_WINDOW / 4;

/** The reply to a request of a tab, part by part. */
export class TabReply implements ReplyStream {
  readonly [SELF] = this;
  id = 0;
  metadata: Metadata = Object.freeze({});
  keptId: string | undefined;
  readonly #options: TabReplyOptions;
  readonly #parts: Inbox<SharedMessage>;
  #isOver = false;
  #isTextRead = false;
  /** Taken by the reader and not yet reported. */
  #taken = 0;
  /** The number of the part before the first one. */
  #after = 0;
  #read = 0;

  constructor(options: TabReplyOptions) {
    this.#options = options;
    this.#parts = new Inbox({
      onTake: (part) => {
        this.#read++;
        part.handleTaken();
      },
      onRelease: () => this.cancel(),
      isReadOnce: true,
    });
  }

  get position(): number {
    return this.#after + this.#read;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  [Symbol.asyncIterator](): AsyncIterator<Message> {
    return this.#parts[Symbol.asyncIterator]();
  }

  cancel(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#parts.clear();
    this.#parts.end();
    this.#options.onCancelled();
  }

  /** Fails the reply with the reason of a signal. */
  abort(reason: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#parts.end(
      reason instanceof Error ? reason : new ProtocolError('cancelled', 'aborted', { cause: reason }),
    );
    this.#options.onCancelled();
  }

  handleHead(head: ReplyHead | undefined): void {
    if (head === undefined) return;
    this.id = head.id;
    this.metadata = Object.freeze(head.metadata);
    this.keptId = head.keptId;
    this.#after = head.after;
  }

  handlePart(packed: PackedMessage): void {
    if (this.#isOver) return;
    const charge = chargeOfMessage(packed);
    this.#parts.push(
      new SharedMessage(packed, {
        limits: this.#options.limits,
        onTaken: () => this.#handleTaken(charge),
        onText: () => {
          this.#isTextRead = true;
        },
      }),
    );
  }

  handleEnd(error: ProtocolError | undefined): void {
    if (this.#isOver) return;
    this.#isOver = true;
    // The host reads the text of all parts. Tokens that end inside a character are an error only for text.
    const isOfText = error?.code === 'bad_utf8' && error.side === 'local';
    this.#parts.end(isOfText ? () => (this.#isTextRead ? error : undefined) : error);
  }

  #handleTaken(charge: number): void {
    this.#taken += charge;
    if (this.#taken < REPORT || this.#isOver) return;
    this.#options.onTaken(this.#taken);
    this.#taken = 0;
  }
}

showAs(TabReply, 'Reply', replyFields);
workAsTheyAre(TabReply);
