import type { ErrorSide, ProtocolError } from '../base/errors.js';
import type { CloseStatement } from '../control/messages.js';

/** Why a session is over, and no other takes its place. */
export interface SessionEnd {
  /** The code that an end gave to `close`, such as `kicked`. */
  readonly code: string | undefined;
  /** A sentence for people: that of the end that has closed the session, or of the error; often ''. */
  readonly reason: string;
  /** `remote`: the other end has closed the session, or has reported the error. */
  readonly side: ErrorSide;
  /** The failure; `undefined` if the session ended in order. Its `retryable` says whether to come back. */
  readonly error: ProtocolError | undefined;
}

/** The end of a session as a promise, which is created when it is first asked for. */
export class EndOfSession {
  #end: SessionEnd | undefined;
  #promise: Promise<SessionEnd> | undefined;
  #resolve: ((end: SessionEnd) => void) | undefined;

  get promise(): Promise<SessionEnd> {
    this.#promise ??= new Promise((resolve) => {
      if (this.#end === undefined) this.#resolve = resolve;
      else resolve(this.#end);
    });
    return this.#promise;
  }

  /** Only the first end counts. */
  settle(statement: CloseStatement, error: ProtocolError | undefined): void {
    const { code, reason, side } = statement;
    this.#end ??= { code, reason: reason || (error?.message ?? ''), side: error?.side ?? side, error };
    this.#resolve?.(this.#end);
  }
}
