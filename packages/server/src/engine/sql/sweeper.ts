import { AccountCalls } from './accounts.js';
import type { SqlCall, SqlDatabase } from './call.js';
import { sweepLogs } from './log-tables.js';
import { SessionCalls } from './sessions.js';

/** Between two steps, in milliseconds. */
const STEP_MS = 1_000;

/** One step through a table: from where the last one has ended to where this one has. */
type Sweep = (after: string) => SqlCall<string>;

/**
 * Deletes what is over, some rows at a time: it walks through each table in the order of its keys, so that no table of sessions needs
 * an index of times, which each write would have to change.
 */
export class Sweeper {
  readonly #database: Pick<SqlDatabase, 'run'>;
  readonly #sweeps: { readonly sweep: Sweep; readonly first: string; after: string }[];
  readonly #timer: ReturnType<typeof setInterval>;
  #isUnderWay = false;

  constructor(database: Pick<SqlDatabase, 'dialect' | 'run'>) {
    const { dialect } = database;
    const [sessions, accounts] = [new SessionCalls(dialect), new AccountCalls(dialect)];
    this.#database = database;
    this.#sweeps = [
      { sweep: (after) => sessions.sweep(after), first: '', after: '' },
      { sweep: (after) => accounts.sweep(after), first: ' ', after: ' ' },
      { sweep: () => sweepLogs(dialect), first: '', after: '' },
    ];
    this.#timer = setInterval(() => void this.step(), STEP_MS);
    this.#timer.unref();
  }

  /** Never rejects: what fails is tried again. Does nothing while the step before is not over, so that few wait for a slow database. */
  async step(): Promise<void> {
    if (this.#isUnderWay) return;
    this.#isUnderWay = true;
    for (const each of this.#sweeps) {
      try {
        each.after = await this.#database.run(() => each.sweep(each.after));
      } catch {
        each.after = each.first;
      }
    }
    this.#isUnderWay = false;
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
