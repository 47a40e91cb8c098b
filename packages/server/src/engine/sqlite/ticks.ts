import { setImmediate } from 'node:timers';
import { ProtocolError } from '@parlance/protocol';
import type { SqlCall, SqlValue } from '../sql/call.js';
import type { Database, PreparedStatement } from './library.js';

/** How long the calls of one tick of the event loop may take together before others get their turn, in milliseconds. */
const TICK_MS = 20;
/** Calls that may wait for their turn; with more, each is refused. */
export const MAX_WAITING = 16_384;
/** Statements that stay prepared. */
const MAX_STATEMENTS = 256;

interface Waiting {
  begin(): SqlCall<unknown>;
  resolve(result: unknown): void;
  reject(error: unknown): void;
}

/** Runs the calls that were made in one tick of the event loop in one transaction, in their order. */
export class Ticks {
  readonly #database: Database;
  readonly #failed: (error: unknown) => Error;
  readonly #statements = new Map<string, Prepared>();
  #waiting: Waiting[] = [];
  #hasWritten = false;
  /** A transaction has changed something. @default nothing */
  onWritten = (): void => {};

  /** @param failed what a call rejects with. */
  constructor(database: Database, failed: (error: unknown) => Error) {
    this.#database = database;
    this.#failed = failed;
  }

  /** @throws {ProtocolError} `timeout` if too many wait; `connection_failed`, `unsupported`. */
  run<Result>(begin: () => SqlCall<Result>): Promise<Result> {
    return new Promise<Result>((resolve, reject) => {
      if (this.#waiting.length >= MAX_WAITING)
        throw new ProtocolError('timeout', 'SQLite has not answered earlier calls');
      if (this.#waiting.length === 0) setImmediate(() => this.end());
      this.#waiting.push({ begin, resolve: resolve as (result: unknown) => void, reject });
    });
  }

  /** Runs what was called. */
  end(): void {
    const calls = this.#waiting;
    this.#waiting = [];
    const until = performance.now() + TICK_MS;
    let done = calls.length > 1 ? this.#together(calls, until) : 0;
    // Without one that fails, the others succeed.
    if (done === 0)
      for (const call of calls) {
        this.#alone(call);
        done++;
        if (performance.now() > until) break;
      }
    if (done === calls.length) return;
    if (this.#waiting.length === 0) setImmediate(() => this.end());
    this.#waiting = [...calls.slice(done), ...this.#waiting];
  }

  /** @returns how many were run until a time; 0 if one has failed, so that none has an effect. */
  #together(calls: readonly Waiting[], until: number): number {
    const results: unknown[] = [];
    try {
      this.#transact(() => {
        for (const { begin } of calls) {
          results.push(this.#execute(begin()));
          if (performance.now() > until) break;
        }
      });
    } catch {
      return 0;
    }
    for (const [i, result] of results.entries()) calls[i]?.resolve(result);
    return results.length;
  }

  #alone({ begin, resolve, reject }: Waiting): void {
    try {
      resolve(this.#transact(() => this.#execute(begin())));
    } catch (error) {
      reject(this.#failed(error));
    }
  }

  #transact<Result>(work: () => Result): Result {
    this.#hasWritten = false;
    this.#do('BEGIN');
    try {
      const result = work();
      this.#do('COMMIT');
      if (this.#hasWritten) this.onWritten();
      return result;
    } catch (error) {
      try {
        this.#do('ROLLBACK');
      } catch {
        // SQLite has rolled back by itself, as it does if the disk is full.
      }
      throw error;
    }
  }

  #execute<Result>(call: SqlCall<Result>): Result {
    let step = call.next();
    while (step.done !== true) {
      const { text, values } = step.value;
      const { statement, isRead } = this.#prepared(text);
      const rows = statement.all(...values);
      if (!isRead) this.#hasWritten = true;
      step = call.next(rows as readonly Record<string, SqlValue>[]);
    }
    return step.value;
  }

  #do(text: string): void {
    this.#prepared(text).statement.all();
  }

  #prepared(text: string): Prepared {
    const known = this.#statements.get(text);
    if (known !== undefined) return known;
    const statement = this.#database.prepare(text);
    const prepared = { statement, isRead: /^\s*SELECT\b/i.test(text) };
    const [oldest] = this.#statements.keys();
    if (oldest !== undefined && this.#statements.size >= MAX_STATEMENTS) this.#statements.delete(oldest);
    this.#statements.set(text, prepared);
    return prepared;
  }
}

interface Prepared {
  readonly statement: PreparedStatement;
  readonly isRead: boolean;
}
