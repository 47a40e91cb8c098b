import type { LoopAccount, LoopShares } from '../base/loop-shares.js';
import type { Transport } from './transport.js';

/**
 * The messages of one connection that wait for time of the event loop. The connection is not read while any of them
 * waits.
 */
export class LoopQueue {
  readonly #shares: LoopShares;
  readonly #wire: Pick<Transport, 'hold' | 'unhold'>;
  #key: string | undefined;
  /** An unshared account is made for the first message: most sessions are idle. */
  #account: LoopAccount | undefined;
  #waiting = 0;
  /** The number of users that have to close it. */
  #users = 1;

  /** @param key names the account, which other connections may share. */
  constructor(shares: LoopShares, wire: Pick<Transport, 'hold' | 'unhold'>, key: string) {
    this.#shares = shares;
    this.#wire = wire;
    this.#key = key;
    this.#account = shares.open(key);
  }

  get isEmpty(): boolean {
    return this.#waiting === 0;
  }

  /** From now on the time counts for `key`; without one, for this connection alone. */
  assign(key: string | undefined): void {
    this.#account = key === undefined ? undefined : this.#shares.open(key);
    this.#shares.close(this.#key);
    this.#key = key;
  }

  /** Whether a message may be handled at `now`, which starts to count; if not, it has to be pushed. */
  enter(now: number): boolean {
    return this.#time.enter(now) && this.#waiting === 0;
  }

  /** Counts reading as work. Without it the loop would read two megabytes of every connection in one turn. */
  enterReading(now: number): void {
    if (this.#waiting === 0 && !this.#time.enter(now)) this.push(() => {});
  }

  /** Runs `task` after those that wait already, as soon as the account has time. */
  push(task: () => void): void {
    if (this.#waiting++ === 0) this.#wire.hold();
    this.#time.push(() => {
      if (--this.#waiting === 0) this.#wire.unhold();
      task();
    });
  }

  /** Resolves when the account has time for the next slice of a long task. */
  next(): Promise<void> {
    return this.#time.next();
  }

  /** Lets go of an account of its own. */
  rest(): void {
    if (this.#key === undefined && this.#account?.isUnused === true) this.#account = undefined;
  }

  /** Another user has it as well, and closes it too. */
  share(): this {
    this.#users++;
    return this;
  }

  close(): void {
    if (--this.#users > 0) return;
    this.#shares.close(this.#key);
    this.#key = undefined;
  }

  get #time(): LoopAccount {
    this.#account ??= this.#shares.open();
    return this.#account;
  }
}
