/**
 * Until when the credentials of a connection are good, at the server. New ones may be looked at while the
 * old ones run out: whoever asked in time is not cut off for the time that the answer takes.
 */
export class Expiry {
  readonly #maxDecisionMs: number;
  #expiresAt = Infinity;
  #decisionDue: number | undefined;

  /** @param maxDecisionMs how long a decision may take. */
  constructor(maxDecisionMs: number) {
    this.#maxDecisionMs = maxDecisionMs;
  }

  /** AUTH has arrived and was not decided upon. */
  get isPending(): boolean {
    return this.#decisionDue !== undefined;
  }

  /** The clock reading at which the connection has no credentials any more. */
  get deadline(): number {
    if (this.#decisionDue === undefined) return this.#expiresAt;
    return Math.max(this.#expiresAt, this.#decisionDue);
  }

  handleRequested(now: number): void {
    this.#decisionDue = now + this.#maxDecisionMs;
  }

  /** @param expiresAt clock reading, `Infinity` for credentials that do not end. */
  handleGranted(expiresAt: number): void {
    this.#expiresAt = expiresAt;
    this.#decisionDue = undefined;
  }
}
