/**
 * When the credentials of a connection expire. A client that sends new ones before that stays connected
 * while the server checks them, even beyond the expiry of the old ones.
 */
export class CredentialExpiry {
  readonly #maxDecisionMs: number;
  #expiresAt = Infinity;
  #decisionDue: number | undefined;

  /** @param maxDecisionMs how long checking new credentials may take. */
  constructor(maxDecisionMs: number) {
    this.#maxDecisionMs = maxDecisionMs;
  }

  /** The milliseconds until the credentials expire; {@link handleGranted} restores them. Not while it is pending. */
  snapshot(now: number): number {
    return this.#expiresAt - now;
  }

  /** AUTH was received and not answered yet. */
  get isPending(): boolean {
    return this.#decisionDue !== undefined;
  }

  /** The clock reading from which on the connection has no valid credentials. */
  get deadline(): number {
    if (this.#decisionDue === undefined) return this.#expiresAt;
    return Math.max(this.#expiresAt, this.#decisionDue);
  }

  handleRequested(now: number): void {
    this.#decisionDue = now + this.#maxDecisionMs;
  }

  /** @param expiresAt clock reading; `Infinity` for credentials that do not expire. */
  handleGranted(expiresAt: number): void {
    this.#expiresAt = expiresAt;
    this.#decisionDue = undefined;
  }
}
