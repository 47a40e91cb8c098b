import { type Logger, ProtocolError } from '@parlance/protocol';
import { loggable } from '@parlance/protocol/internal';
import { pause } from '../base/repeat.js';
import { isChanged } from './is-changed.js';

/** How long readers wait for an engine that does not answer, in milliseconds. */
const PATIENCE_MS = 10_000;
const RETRY_MS = 200;

/** Whether the engine answers: calls are made again until it does, and the log says so once. */
export class EngineAnswers {
  /** No call is made again. */
  isClosed = false;
  readonly #logger: Logger;
  readonly #retryMs: number;
  #isStalled = false;

  constructor({
    logger,
    retryMs = RETRY_MS,
  }: { readonly logger: Logger; readonly retryMs?: number | undefined }) {
    this.#logger = logger;
    this.#retryMs = retryMs;
  }

  /** The engine has answered a call, or has not. */
  handle(error: unknown): void {
    if (isChanged(error)) {
      const fields = { event: 'replies.changed', err: loggable(error) };
      this.#logger.error(fields, 'the engine has a kept reply that no node has written so');
      return;
    }
    const isStalled = error !== undefined;
    if (isStalled === this.#isStalled) return;
    this.#isStalled = isStalled;
    if (isStalled) {
      const fields = { event: 'replies.stalled', err: loggable(error) };
      this.#logger.warn(fields, 'the engine does not take or give kept replies; they wait');
    } else this.#logger.info({ event: 'replies.back' }, 'the engine takes kept replies again');
  }

  /**
   * @param isAwaited whether to wait further for an engine that has not answered for long. @default it does not
   * @throws {ProtocolError} `timeout`, `authentication_failed`.
   */
  async patiently<Result>(run: () => Promise<Result>, isAwaited = () => false): Promise<Result> {
    const deadline = performance.now() + PATIENCE_MS;
    for (;;) {
      try {
        const result = await run();
        this.handle(undefined);
        return result;
      } catch (cause) {
        this.handle(cause);
        if (isChanged(cause)) throw cause;
        if (this.isClosed || (performance.now() >= deadline && !isAwaited()))
          throw new ProtocolError('timeout', 'the engine that has the reply does not answer', { cause });
        await pause(this.#retryMs);
      }
    }
  }
}
