import { ProtocolError } from '../base/errors.js';
import { RECORD_BEHIND } from '../control/messages.js';
import { closeReasonOf } from '../session/close-reason.js';
import { attempt, guardLater, logCrash } from './guard.js';
import { type EndpointHost, sessionClosed } from './host.js';
import type { CloseResult } from './session.js';
import { EndOfSession } from './session-end.js';

const SESSION_FAILED = 'the session failed';
export const BEHIND = { code: RECORD_BEHIND, reason: "the server's record is behind" } as const;

export interface EndingHost extends EndpointHost {
  /** End senders, replies, handlers and memory of the session. All steps are taken, even if one fails. */
  readonly endingSteps: readonly ((error: ProtocolError | undefined) => void)[];
  /** Transmits the frames and handles the events of the core. May throw. */
  apply(): void;
  /** Drops the connection with the reason of a close frame. Never throws. */
  cutOff(reason: string): void;
}

/**
 * How a session ends: in order, by an error or by a fault of this end. Settles the calls that wait for the
 * end.
 */
export class Ending {
  readonly #host: EndingHost;
  #flushing: { resolve: () => void; reject: (error: Error) => void }[] | undefined;
  #closing: ((result: CloseResult) => void)[] | undefined;
  #unacknowledged = 0;
  #hasEnded = false;
  #hasReported = false;
  #hasCrashed = false;
  #isDropped = false;
  #over: EndOfSession | undefined;
  /** The caller ended the session with an error, which it has logged if necessary. */
  isAborted = false;

  constructor(host: EndingHost) {
    this.#host = host;
  }

  /** Created when it is asked for, or at the end. */
  get over(): EndOfSession {
    this.#over ??= new EndOfSession();
    return this.#over;
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }
  get hasCrashed(): boolean {
    return this.#hasCrashed;
  }
  /** The session ended without its core, because the core failed. */
  get isDropped(): boolean {
    return this.#isDropped;
  }

  /** Nothing waits to be written or acknowledged. */
  get isFlushed(): boolean {
    const { core } = this.#host;
    const { hasUntold, framesUnconfirmed } = core.channel;
    return core.queuedBytes === 0 && !core.hasOutput && framesUnconfirmed === 0 && hasUntold !== true;
  }

  /** Resolves when everything is acknowledged; rejects if the session ends before. */
  async flushed(): Promise<void> {
    if (this.isFlushed) return;
    await new Promise<void>((resolve, reject) => {
      this.#flushing ??= [];
      this.#flushing.push({ resolve, reject });
    });
  }

  /** Resolves the calls of {@link flushed} if everything is acknowledged. */
  checkFlushed(): void {
    if (this.#flushing !== undefined && this.isFlushed) this.#settleFlushing(undefined);
  }

  failFlush(error: ProtocolError): void {
    this.#settleFlushing(error);
  }

  /** Calls `close` unless the session has ended. Resolves when it has. */
  closed(close: () => void): Promise<CloseResult> {
    if (this.#hasEnded) return Promise.resolve({ unacknowledged: this.#unacknowledged });
    return new Promise((resolve) => {
      this.#closing ??= [];
      this.#closing.push(resolve);
      close();
    });
  }

  /** The core has ended. */
  end(given: ProtocolError | undefined): void {
    const { core, options, endingSteps } = this.#host;
    // A fault that the core itself caught while it handled a frame.
    if (given?.code === 'internal' && given.side === 'local' && !this.isAborted && !this.#hasCrashed)
      this.#logFault(given.cause ?? given);
    const error = options.onEnding === undefined ? given : options.onEnding(given);
    this.#hasEnded = true;
    for (const step of endingSteps) step(error);
    const undelivered = core.unconfirmed();
    this.#unacknowledged = core.channel.framesUnconfirmed + undelivered.notSent.length;
    // An answered CLOSE says that everything has arrived.
    const isComplete = error === undefined && this.#unacknowledged === 0;
    this.#settleFlushing(isComplete ? undefined : (error ?? sessionClosed(core)));
    this.#settleClosing({ unacknowledged: this.#unacknowledged });
    this.#host.notify('state', 'closed');
    this.#endMailbox(error);
    if (error !== undefined) this.#host.notify('error', error);
    if (error?.code === 'session_lost')
      this.#host.notify('reset', { code: error.code, reason: error.message, ...undelivered });
    this.#report(error);
  }

  /** See `Crashable.crash`. If the core fails again, the session is dropped without it. */
  crash(error: unknown): void {
    const again = this.#hasCrashed;
    this.#hasCrashed = true;
    this.#logFault(error);
    // The session has ended already; only its connection is left.
    if (this.#hasReported) return this.#host.cutOff(SESSION_FAILED);
    const failure = new ProtocolError('internal', SESSION_FAILED, { cause: error });
    const failed = again
      ? undefined
      : attempt(() => {
          this.#host.core.abort(failure, this.#host.options.clock.now());
          this.#host.apply();
        });
    if (failed !== undefined) this.#logFault(failed.error);
    if (!this.#hasReported) this.#drop(failure);
  }

  /** A call of {@link flushed} or {@link closed} waits. */
  get isAwaited(): boolean {
    return this.#flushing !== undefined || this.#closing !== undefined;
  }

  /** See `Endpoint.leave`. For the application, the session ends in order. */
  leave(failure: ProtocolError): void {
    if (!this.#isDropped) this.#dropWith(failure, undefined);
  }

  #drop(failure: ProtocolError): void {
    if (this.#isDropped) return;
    this.#host.cutOff(closeReasonOf(failure));
    this.#dropWith(failure, failure);
  }

  /** @param reported what the application is told; `undefined` for an end in order. */
  #dropWith(failure: ProtocolError, reported: ProtocolError | undefined): void {
    this.#isDropped = true;
    this.#hasEnded = true;
    const host = this.#host;
    const steps = [
      ...host.endingSteps,
      () => this.#settleFlushing(failure),
      // Nothing is known about what has arrived.
      () => this.#settleClosing({ unacknowledged: Infinity }),
      () => host.notify('state', 'closed'),
      () => host.mailbox.end(reported),
      () => reported && host.notify('error', reported),
      () => this.#report(reported),
    ];
    for (const step of steps) {
      const failed = attempt(() => step(failure));
      if (failed !== undefined) this.#logFault(failed.error);
    }
  }

  #settleFlushing(error: ProtocolError | undefined): void {
    const flushing = this.#flushing ?? [];
    this.#flushing = undefined;
    for (const { resolve, reject } of flushing) {
      if (error === undefined) resolve();
      else reject(error);
    }
  }

  #settleClosing(result: CloseResult): void {
    const closing = this.#closing ?? [];
    this.#closing = undefined;
    for (const resolve of closing) resolve(result);
  }

  /** Messages that are still being scanned were acknowledged, so the reader gets them before the end. */
  #endMailbox(error: ProtocolError | undefined): void {
    const { mailbox, scanner } = this.#host;
    const end = () => mailbox.end(error);
    const scanning = scanner?.pending;
    if (scanning === undefined) end();
    else guardLater(this.#host, scanning.then(end, end));
  }

  #report(error: ProtocolError | undefined): void {
    if (this.#hasReported) return;
    this.#hasReported = true;
    this.over.settle(this.#host.core.closeStatement, error);
    this.#host.options.onEnded?.(error);
  }

  #logFault(error: unknown): void {
    let id: string | undefined;
    attempt(() => {
      id = this.#host.core.id;
    });
    logCrash(this.#host.logger, id, error);
  }
}
