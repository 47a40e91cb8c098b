import type { Message } from '@parlance/protocol';
import type { ServerSession } from '../../session/served-session.js';
import type { Hook } from './hook.js';
import { runHooks } from './run-hooks.js';

const DONE: IteratorResult<never, undefined> = { value: undefined, done: true };

/** The messages of a session, each with the hooks around the time for which its reader has it. */
export class HookedReader implements AsyncIterableIterator<Message> {
  readonly #inner: AsyncIterator<Message>;
  readonly #session: ServerSession;
  readonly #hooks: readonly Hook[];
  /** Tells the hooks that the reader has finished with a message. */
  #finish: (() => void) | undefined;
  /** The hooks of that message. */
  #running: Promise<unknown> | undefined;
  #isOver = false;
  /** One message after the other, even for a reader that asks for several at once. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(inner: AsyncIterator<Message>, session: ServerSession, hooks: readonly Hook[]) {
    this.#inner = inner;
    this.#session = session;
    this.#hooks = hooks;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<Message, undefined>> {
    return this.#inTurn(() => this.#read());
  }

  async return(): Promise<IteratorResult<Message, undefined>> {
    await this.#inner.return?.();
    return await this.#inTurn(async () => {
      this.#isOver = true;
      await this.#leave();
      return DONE;
    });
  }

  #inTurn<Result>(task: () => Promise<Result>): Promise<Result> {
    const result = this.#last.then(task);
    this.#last = result.catch(() => {});
    return result;
  }

  async #read(): Promise<IteratorResult<Message, undefined>> {
    await this.#leave();
    while (!this.#isOver) {
      const { value: message, done } = await this.#inner.next();
      if (done === true) return DONE;
      if (await this.#isPassed(message)) return { value: message, done: false };
    }
    return DONE;
  }

  /** Resolves when the hooks have handed the message on, or have dropped it. */
  #isPassed(message: Message): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const context = { kind: 'message', message, session: this.#session } as const;
      const running = runHooks(this.#hooks, context, () => {
        resolve(true);
        return new Promise<undefined>((finish) => {
          this.#finish = () => finish(undefined);
        });
      });
      this.#running = running;
      running.then(() => resolve(false), reject);
    });
  }

  /** The reader has finished with its message. Rejects with what the hooks throw after that. */
  async #leave(): Promise<void> {
    this.#finish?.();
    this.#finish = undefined;
    const running = this.#running;
    this.#running = undefined;
    await running;
  }
}
