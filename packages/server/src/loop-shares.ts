/**
 * The time of the event loop, shared between those that it works for. It has one thread, so a peer that keeps
 * it busy within all other limits would still have everybody else wait.
 *
 * Time is measured from the first message that a turn of the loop handles for an account to the first one for
 * another account, or to the end of the turn: what handlers and coding do in microtasks is in it. Two rules
 * bound an account:
 *
 * - In one turn it gets {@link TURN_MS}. The rest of its messages waits for the next turn, so that others are
 *   looked at in between, however fast messages arrive.
 * - While others are served it gets its share of the time, half of it by default, with {@link BURST_MS} at once.
 *   Alone, it may use all.
 */

/** Milliseconds of one turn that an account gets. */
export const TURN_MS = 20;
/** Milliseconds that an account may use at once beyond its share. */
export const BURST_MS = 40;
/**
 * Milliseconds that an account can owe. One call that blocked for long, or a machine that did something else
 * meanwhile, is no reason to keep a peer waiting for many times that.
 */
export const MAX_DEBT_MS = 250;
/** Another account counts as served for so long after its last message, in milliseconds. */
const SERVED_MS = 1_000;
/** Milliseconds of work for one account in a row between two looks at what it has used. */
const LOOK_AFTER_MS = 1;
/** Milliseconds of tasks of one account before another one's turn, among those that wait. */
const SLICE_MS = 5;

const NEXT_TURN = -Infinity;

interface Task {
  readonly run: () => void;
  /** Its work is done in microtasks behind the call. */
  readonly isSlice: boolean;
}

/** Time and tasks of a principal, or of an address before it is known whose it is. */
export class LoopAccount {
  /** Milliseconds that may be used; below zero for a debt. */
  level = BURST_MS;
  filledAt: number;
  servedAt = -Infinity;
  turn = -1;
  turnSpent = 0;
  readonly tasks: Task[] = [];
  readonly #shares: LoopShares;

  /** @internal use {@link LoopShares.open}. */
  constructor(shares: LoopShares, now: number) {
    this.#shares = shares;
    this.filledAt = now;
  }

  /** Whether the loop may work for the account at `now`; what it does from here on counts. */
  enter(now: number): boolean {
    return this.#shares.enter(this, now);
  }

  /** Runs `task` when it is the account's turn, behind those that wait. */
  push(run: () => void): void {
    this.#shares.push(this, { run, isSlice: false });
  }

  /** Resolves when it is the account's turn again, for work that is done in slices. */
  next(): Promise<void> {
    return new Promise((run) => this.#shares.push(this, { run, isSlice: true }));
  }
}

export interface LoopSharesOptions {
  /** Part of the time that one account gets while others are served; 1 or more bounds none. */
  readonly share: number;
  /** Milliseconds. */
  readonly now: () => number;
  /** Runs `task` once in the next turn. */
  readonly soon: (task: () => void) => void;
  /** Runs `task` once after `ms`. */
  readonly after: (ms: number, task: () => void) => void;
}

export class LoopShares {
  readonly #options: LoopSharesOptions;
  readonly #accounts = new Map<string, { readonly account: LoopAccount; users: number }>();
  /** The loop works for it since `#since`. */
  #current: LoopAccount | undefined;
  #since = 0;
  #turn = 0;
  #hasTurnEnd = false;
  /** The two that were served last, which differ. */
  #latest: LoopAccount | undefined;
  #other: LoopAccount | undefined;
  /** Accounts whose tasks wait, in order of turn. */
  #waiting = new Set<LoopAccount>();
  /** When those that wait are looked at next, `Infinity` if none does. */
  #dueAt = Infinity;

  constructor(options: LoopSharesOptions) {
    this.#options = options;
  }

  /** Accounts by name that are in use. */
  get size(): number {
    return this.#accounts.size;
  }

  /** @param key of all that shares the account; without one it is the caller's own. */
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

  /** One of those who opened `key` is gone. */
  close(key: string | undefined): void {
    const entry = key === undefined ? undefined : this.#accounts.get(key);
    if (entry !== undefined && --entry.users === 0) this.#accounts.delete(key as string);
  }

  /** @internal */
  enter(account: LoopAccount, now: number): boolean {
    // Worked for it just now: a message of many takes a hundredth of this.
    if (account === this.#current && now - this.#since < LOOK_AFTER_MS) return account.tasks.length === 0;
    this.#switchTo(account, now);
    return account.tasks.length === 0 && this.#mayRun(account, now);
  }

  /** @internal */
  push(account: LoopAccount, task: Task): void {
    account.tasks.push(task);
    this.#waiting.add(account);
    this.#schedule();
  }

  /** What was done until now was done for the account before. */
  #switchTo(account: LoopAccount, now: number): void {
    this.#spend(now);
    this.#current = account;
    account.servedAt = now;
    if (account !== this.#latest) {
      this.#other = this.#latest;
      this.#latest = account;
    }
    if (this.#hasTurnEnd) return;
    this.#hasTurnEnd = true;
    this.#options.soon(() => {
      this.#spend(this.#options.now());
      this.#hasTurnEnd = false;
      this.#current = undefined;
      this.#turn++;
    });
  }

  #spend(now: number): void {
    const account = this.#current;
    if (account !== undefined) {
      this.#fill(account, now);
      const spent = now - this.#since;
      account.level = Math.max(-MAX_DEBT_MS, account.level - spent);
      if (account.turn !== this.#turn) {
        account.turn = this.#turn;
        account.turnSpent = 0;
      }
      account.turnSpent += spent;
    }
    this.#since = now;
  }

  #fill(account: LoopAccount, now: number): void {
    const elapsed = now - account.filledAt;
    if (elapsed <= 0) return;
    account.level = Math.min(BURST_MS, account.level + elapsed * this.#rateOf(account, now));
    account.filledAt = now;
  }

  /** Milliseconds of work that an account gets a millisecond. */
  #rateOf(account: LoopAccount, now: number): number {
    const another = this.#latest === account ? this.#other : this.#latest;
    const hasOthers = another !== undefined && now - another.servedAt < SERVED_MS;
    return hasOthers ? Math.min(1, this.#options.share) : 1;
  }

  #mayRun(account: LoopAccount, now: number): boolean {
    if (account.turn === this.#turn && account.turnSpent >= TURN_MS) return false;
    if (this.#options.share >= 1) return true;
    this.#fill(account, now);
    return account.level >= 0;
  }

  #schedule(): void {
    if (this.#waiting.size === 0 || this.#dueAt === NEXT_TURN) return;
    const wait = Math.ceil(this.#shortestWait());
    const dueAt = wait <= 0 ? NEXT_TURN : this.#options.now() + wait;
    if (dueAt >= this.#dueAt) return;
    this.#dueAt = dueAt;
    const run = () => {
      // An earlier look has taken the place of this one.
      if (this.#dueAt !== dueAt) return;
      this.#dueAt = Infinity;
      this.#runWaiting();
    };
    if (dueAt === NEXT_TURN) this.#options.soon(run);
    else this.#options.after(wait, run);
  }

  /** Milliseconds until one of those that wait has no debt any more. */
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

  /** A slice of the tasks of each account that has its turn. */
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
      // Those that have had their turn are last.
      if (account.tasks.length > 0) this.#waiting.add(account);
      // A slice is worked on when this call has returned, and that is the time of its account.
      if (task?.isSlice === true) break;
    }
    this.#schedule();
  }
}
