import { SELF, workAsTheyAre } from '../../base/as-they-are.js';
import { showAs } from '../../base/shown.js';
import { readTwice } from '../messages/inbox.js';
import type { Message } from '../messages/message.js';
import type { Metadata } from '../messages/metadata.js';
import type { ReplyStream } from './reply.js';
import { replyFields } from './reply-fields.js';

/** The reply to a request that is sent when the code for requests is loaded. */
export class LateReply implements ReplyStream {
  readonly [SELF] = this;
  readonly #opened: Promise<ReplyStream | undefined>;
  #reply: ReplyStream | undefined;
  #isCancelled = false;
  #isRead = false;
  readonly #onCancelled: (() => void) | undefined;

  /**
   * @param load resolves when the request can be sent.
   * @param ask sends it. The errors of both are those of the reply.
   * @param onCancelled called if it is cancelled before. `load` may reject then.
   */
  constructor(load: () => Promise<unknown>, ask: () => ReplyStream, onCancelled?: () => void) {
    this.#onCancelled = onCancelled;
    this.#opened = this.#open(load, ask);
    // The reader gets the error. A reply that has no reader fails silently, like any other.
    this.#opened.catch(() => {});
  }

  get id(): number {
    return this.#reply?.id ?? 0;
  }
  get metadata(): Metadata {
    return this.#reply?.metadata ?? NO_METADATA;
  }

  get keptId(): string | undefined {
    return this.#reply?.keptId;
  }
  get position(): number {
    return this.#reply?.position ?? 0;
  }

  cancel(): void {
    this.#isCancelled = true;
    if (this.#reply === undefined) this.#onCancelled?.();
    else this.#reply.cancel();
  }

  [Symbol.asyncIterator](): AsyncIterator<Message> {
    if (this.#isRead) throw readTwice();
    this.#isRead = true;
    const parts = this.#opened.then((reply) => reply?.[Symbol.asyncIterator]());
    parts.catch(() => {});
    const over = { value: undefined, done: true } as const;
    return {
      next: async () => (await parts)?.next() ?? over,
      return: async () => {
        this.cancel();
        await (await parts)?.return?.();
        return over;
      },
    };
  }

  /** `undefined` if it was cancelled before the request was sent. */
  async #open(load: () => Promise<unknown>, ask: () => ReplyStream): Promise<ReplyStream | undefined> {
    try {
      await load();
    } catch (error) {
      if (!this.#isCancelled) throw error;
    }
    if (this.#isCancelled) return undefined;
    const reply = ask();
    this.#reply = reply;
    return reply;
  }
}

const NO_METADATA: Metadata = Object.freeze({});

showAs(LateReply, 'Reply', replyFields);
workAsTheyAre(LateReply);
