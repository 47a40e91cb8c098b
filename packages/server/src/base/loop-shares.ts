// Not the global one, which the fake timers of a user's test replace.
import { setImmediate } from 'node:timers';
import { systemClock } from '@parlance/protocol/internal';

/**
 * Shares the time of the event loop between accounts (principals, or addresses before authentication). The loop has
 * one thread, so a peer that keeps it busy within all other limits would still make all others wait.
 *
 * Time is measured from the first message that a tick of the loop handles for an account to the first one for
 * another account, or to the end of the tick, so it includes the microtasks of handlers and coding. Two rules
 * limit an account:
 *
 * - It gets {@link TICK_MS} in one tick. The rest of its messages wait for the next tick, so that other accounts are
 *   served in between, however fast messages arrive.
 * - While others are served, it gets its share of the time and may use {@link BURST_MS} at once. If it is alone, it
 *   may use all the time.
 */

/** Milliseconds that an account gets in one tick. */
export const TICK_MS = 20;
/** Milliseconds that an account may use at once beyond its share. */
export const BURST_MS = 40;
/**
 * The largest debt of an account, in milliseconds. After one call that blocked for long, or a pause of the whole
 * machine, a peer must not wait for many times that.
 */
export const MAX_DEBT_MS = 250;
/** Another account counts as being served for this long after its last message, in milliseconds. */
const SERVED_MS = 1_000;
/** Milliseconds of uninterrupted work for one account between two checks of its limits. */
const LOOK_AFTER_MS = 1;
/** Milliseconds for which the waiting tasks of one account run before another account's. */
const SLICE_MS = 5;

const NEXT_TICK = -Infinity;

interface Task {
  readonly run: () => void;
  /** Its work is done in microtasks after the call. */
  readonly isSlice: boolean;
}

/** Time and tasks of a principal, or of an address before authentication. */
export class LoopAccount {
  /** Milliseconds that may be used; negative for a debt. */
  level = BURST_MS;
  filledAt: number;
  servedAt = -Infinity;
  tick = -1;
  tickSpent = 0;
  readonly tasks: Task[] = [];
  readonly #shares: LoopShares;

  /** @internal use {@link LoopShares.open}. */
  constructor(shares: LoopShares, now: number) {
    this.#shares = shares;
    this.filledAt = now;
  }

  /** Whether the loop may work for the account at `now`. From here on, time counts for the account. */
  enter(now: number): boolean {
    return this.#shares.enter(this, now);
  }

  /** A new account would be the same. */
  get isUnused(): boolean {
    return this.tasks.length === 0 && this.#shares.isFull(this);
  }

  /** Runs `run` when it is the account's turn, after its waiting tasks. */
  push(run: () => void): void {
    this.#shares.push(this, { run, isSlice: false });
  }

  /** Resolves when it is the account's turn again, for work in slices. */
  next(): Promise<void> {
    return new Promise((run) => this.#shares.push(this, { run, isSlice: true }));
  }
}

export interface LoopSharesOptions {
  /** Share of the time that one account gets while others are served; 1 or more means no limit. */
  readonly share: number;
  /** Milliseconds. */
  readonly now: () => number;
  /** Runs `task` once in the next tick. */
  readonly soon: (task: () => void) => void;
  /** Runs `task` once after `ms`. */
  readonly after: (ms: number, task: () => void) => void;
}

/** Shares the time of this process. @param share as {@link LoopSharesOptions.share}. */
export function createLoopShares(share: number): LoopShares {
  return new LoopShares({
    share,
    now: () => systemClock.now(),
    soon: (task) => void setImmediate(task),
    after: (ms, task) => void systemClock.after(ms, task),
  });
}

export class LoopShares {
  readonly #options: LoopSharesOptions;
  readonly #accounts = new Map<string, { readonly account: LoopAccount; users: number }>();
  /** The account that the loop has worked for since `#since`. */
  #current: LoopAccount | undefined;
  #since = 0;
  #tick = 0;
  #hasTickEnd = false;
  /** The two different accounts that were served last. */
  #latest: LoopAccount | undefined;
  #other: LoopAccount | undefined;
  /** Accounts with waiting tasks, in the order of their turns. */
  #waiting = new Set<LoopAccount>();
  /** When waiting tasks are run next; `Infinity` if none waits. */
  #dueAt = Infinity;

  constructor(options: LoopSharesOptions) {
    this.#options = options;
  }

  /** The number of shared accounts in use. */
  get size(): number {
    return this.#accounts.size;
  }

  /** @param key the name of a shared account; without one, the account is the caller's own. */
  open(key?: string): LoopAccount {
    if (key === undefined) return new LoopAccount(this, this.#options.now());
    let entry = this.#accounts.get(key);
    if (entry === undefined) {
      entry = { account: new LoopAccount(this, this.#options.now()), users: 0 };
      this.#accounts.set(key, entry);
    }
    entry.users++;
    return entry.account;
  }

  /** Closes one use of the shared account `key`. */
  close(key: string | undefined): void {
    const entry = key === undefined ? undefined : this.#accounts.get(key);
    if (entry !== undefined && --entry.users === 0) this.#accounts.delete(key as string);
  }

  /** @internal */
  enter(account: LoopAccount, now: number): boolean {
    // Shortcut while messages arrive in a row: handling one takes about a hundredth of this time.
    if (account === this.#current && now - this.#since < LOOK_AFTER_MS) return account.tasks.length === 0;
    this.#switchTo(account, now);
    return account.tasks.length === 0 && this.#mayRun(account, now);
  }

  /** @internal */
  isFull(account: LoopAccount): boolean {
    this.#fill(account, this.#options.now());
    return account.level === BURST_MS;
  }

  /** @internal */
  push(account: LoopAccount, task: Task): void {
    account.tasks.push(task);
    this.#waiting.add(account);
    this.#schedule();
  }

  /** Charges the time up to `now` to the current account, and makes `account` the current one. */
  #switchTo(account: LoopAccount, now: number): void {
    this.#spend(now);
    this.#current = account;
    account.servedAt = now;
    if (account !== this.#latest) {
      this.#other = this.#latest;
      this.#latest = account;
    }
    if (this.#hasTickEnd) return;
    this.#hasTickEnd = true;
    this.#options.soon(() => {
      this.#spend(this.#options.now());
      this.#hasTickEnd = false;
      this.#current = undefined;
      this.#tick++;
    });
  }

  #spend(now: number): void {
    const account = this.#current;
    if (account !== undefined) {
      this.#fill(account, now);
      const spent = now - this.#since;
      account.level = Math.max(-MAX_DEBT_MS, account.level - spent);
      if (account.tick !== this.#tick) {
        account.tick = this.#tick;
        account.tickSpent = 0;
      }
      account.tickSpent += spent;
    }
    this.#since = now;
  }

  #fill(account: LoopAccount, now: number): void {
    const elapsed = now - account.filledAt;
    if (elapsed <= 0) return;
    account.level = Math.min(BURST_MS, account.level + elapsed * this.#rateOf(account, now));
    account.filledAt = now;
  }

  /** Milliseconds of work that an account gets per millisecond. */
  #rateOf(account: LoopAccount, now: number): number {
    const another = this.#latest === account ? this.#other : this.#latest;
    const hasOthers = another !== undefined && now - another.servedAt < SERVED_MS;
    return hasOthers ? Math.min(1, this.#options.share) : 1;
  }

  #mayRun(account: LoopAccount, now: number): boolean {
    if (account.tick === this.#tick && account.tickSpent >= TICK_MS) return false;
    if (this.#options.share >= 1) return true;
    this.#fill(account, now);
    return account.level >= 0;
  }

  #schedule(): void {
    if (this.#waiting.size === 0 || this.#dueAt === NEXT_TICK) return;
    const wait = Math.ceil(this.#shortestWait());
    const dueAt = wait <= 0 ? NEXT_TICK : this.#options.now() + wait;
    if (dueAt >= this.#dueAt) return;
    this.#dueAt = dueAt;
    const run = () => {
      // An earlier run has replaced this one.
      if (this.#dueAt !== dueAt) return;
      this.#dueAt = Infinity;
      this.#runWaiting();
    };
    if (dueAt === NEXT_TICK) this.#options.soon(run);
    else this.#options.after(wait, run);
  }

  /** Milliseconds until the first waiting account has no more debt. */
  #shortestWait(): number {
    if (this.#options.share >= 1) return 0;
    const now = this.#options.now();
    let shortest = Infinity;
    for (const account of this.#waiting) {
      this.#fill(account, now);
      shortest = Math.min(shortest, -account.level / this.#rateOf(account, now));
      if (shortest <= 0) return 0;
    }
    return shortest;
  }

  /** Runs a slice of the tasks of each waiting account that may run. */
  #runWaiting(): void {
    const { now } = this.#options;
    for (const account of [...this.#waiting]) {
      const begun = now();
      if (!this.#mayRun(account, begun)) continue;
      this.#switchTo(account, begun);
      this.#waiting.delete(account);
      let task: Task | undefined;
      do {
        task = account.tasks.shift();
        task?.run();
      } while (task?.isSlice === false && account.tasks.length > 0 && now() - begun < SLICE_MS);
      // An account that has had its turn goes to the end.
      if (account.tasks.length > 0) this.#waiting.add(account);
      // The work of a slice follows this call, and its time must count for this account.
      if (task?.isSlice === true) break;
    }
    this.#schedule();
  }
}
