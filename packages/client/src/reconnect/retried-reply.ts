import type { Message, Metadata, ReplyStream } from '@parlance/protocol';
import { readTwice, replyFields, SELF, showAs, workAsTheyAre } from '@parlance/protocol/client';

export interface RetriedReplyOptions {
  /** Whether the request is made again in the next session after this error. */
  readonly movesOn: (error: unknown) => boolean;
  readonly onCancelled: () => void;
}

/** The reply to a request that moves on to the next session as long as it is not written. */
export class RetriedReply implements ReplyStream {
  readonly [SELF] = this;
  readonly #options: RetriedReplyOptions;
  /** The reply in the present session; `undefined` while the request waits for one. */
  #reply: ReplyStream | undefined;
  #parts: AsyncIterator<Message> | undefined;
  #failure: { readonly error: unknown } | undefined;
  #isCancelled = false;
  #isRead = false;
  #wake = (): void => {};

  constructor(options: RetriedReplyOptions) {
    this.#options = options;
  }

  get id(): number {
    return this.#reply?.id ?? 0;
  }
  get metadata(): Metadata {
    return this.#reply?.metadata ?? {};
  }
  get keptId(): string | undefined {
    return this.#reply?.keptId;
  }
  get position(): number {
    return this.#reply?.position ?? 0;
  }

  /** The request is made in another session. */
  begin(reply: ReplyStream): void {
    this.#reply = reply;
    this.#parts = undefined;
    this.#wake();
  }

  fail(error: unknown): void {
    this.#failure ??= { error };
    this.#wake();
  }

  cancel(): void {
    this.#isCancelled = true;
    this.#options.onCancelled();
    this.#reply?.cancel();
    this.#wake();
  }

  [Symbol.asyncIterator](): AsyncIterator<Message> {
    if (this.#isRead) throw readTwice();
    this.#isRead = true;
    return {
      next: () => this.#next(),
      return: async () => {
        this.cancel();
        return OVER;
      },
    };
  }

  async #next(): Promise<IteratorResult<Message, undefined>> {
    for (;;) {
      const reply = this.#reply;
      if (reply === undefined) {
        if (this.#isCancelled) return OVER;
        if (this.#failure !== undefined) throw this.#failure.error;
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        continue;
      }
      this.#parts ??= reply[Symbol.asyncIterator]();
      try {
        return await this.#parts.next();
      } catch (error) {
        if (this.#reply !== reply) continue;
        if (!this.#options.movesOn(error)) throw error;
        this.#reply = undefined;
      }
    }
  }
}

const OVER = { value: undefined, done: true } as const;

showAs(RetriedReply, 'Reply', replyFields);
workAsTheyAre(RetriedReply);
