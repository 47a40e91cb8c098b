import type { SessionOptions } from './types.js';

/**
 * When the credentials of a connection expire. A client that sends new ones before that stays connected
 * while the server checks them, even beyond the expiry of the old ones.
 */
export class CredentialExpiry {
  readonly #options: Pick<SessionOptions, 'timers' | 'timeOrigin'>;
  /** Clock reading. */
  #expiresAt = Infinity;
  /** The same in Unix milliseconds, which come sooner if the machine has slept, or its clock was set. */
  #expiresAtUnix = Infinity;
  #decisionDue: number | undefined;

  /** @param options `acceptTimeoutMs` is how long checking new credentials may take. */
  constructor(options: Pick<SessionOptions, 'timers' | 'timeOrigin'>) {
    this.#options = options;
  }

  /** The milliseconds until the credentials expire; {@link handleGranted} restores them. Not while it is pending. */
  snapshot(now: number): number {
    return this.#end - now;
  }

  /** AUTH was received and not answered yet. */
  get isPending(): boolean {
    return this.#decisionDue !== undefined;
  }

  /** The clock reading from which on the connection has no valid credentials. */
  get deadline(): number {
    if (this.#decisionDue === undefined) return this.#end;
    return Math.max(this.#end, this.#decisionDue);
  }

  /** By the clock that says so first. */
  get #end(): number {
    return Math.min(this.#expiresAt, this.#expiresAtUnix - (this.#options.timeOrigin ?? 0));
  }

  handleRequested(now: number): void {
    this.#decisionDue = now + this.#options.timers.acceptTimeoutMs;
  }

  /** @param expiresAt clock reading; `Infinity` for credentials that do not expire. */
  handleGranted(expiresAt: number): void {
    this.#expiresAt = expiresAt;
    this.#expiresAtUnix = expiresAt + (this.#options.timeOrigin ?? 0);
    this.#decisionDue = undefined;
  }
}
