import { ProtocolError } from '@parlance/protocol';
import type { PoolClient } from 'pg';
import { pause } from '../../base/repeat.js';
import type { Row, SqlCall } from '../sql/call.js';
import { preparedText } from './dialect.js';
import { isBroken, isInTheWay, unsuitable } from './errors.js';

/** How often a call is begun if other transactions are in the way, and how long it waits in between at most, in milliseconds. */
const MAX_ATTEMPTS = 20;
const WAIT_MS = 10;

const BEGIN_REPLICATED = `BEGIN; SET LOCAL synchronous_commit TO on; SET LOCAL client_min_messages TO warning;
  SELECT current_setting('synchronous_standby_names') AS standbys`;

/** Runs one call over one connection. */
export class Transaction {
  /** Its time is over: nothing more is sent. */
  isOver = false;
  /** It has a result, or has failed. */
  isDone = false;
  readonly #client: PoolClient;
  readonly #isReplicated: boolean;
  #hasBegun = false;

  constructor(client: PoolClient, isReplicated: boolean) {
    this.#client = client;
    this.#isReplicated = isReplicated;
  }

  /** @throws what Postgres says, and `begin`; {@link ProtocolError} `unsupported`, `timeout`. */
  async run<Result>(begin: () => SqlCall<Result>): Promise<Result> {
    try {
      return await this.#run(begin);
    } finally {
      this.isDone = true;
    }
  }

  async #run<Result>(begin: () => SqlCall<Result>): Promise<Result> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#attempt(begin());
      } catch (error) {
        if (this.isOver || isBroken(error)) throw error;
        await this.#end('ROLLBACK');
        if (!isInTheWay(error) || attempt === MAX_ATTEMPTS) throw error;
      }
      await pause(WAIT_MS * Math.random());
    }
  }

  /** A call that only reads needs no transaction, as each statement sees all commits before it in either case. */
  async #attempt<Result>(call: SqlCall<Result>): Promise<Result> {
    if (this.#isReplicated) await this.#beginReplicated();
    for (let step = call.next(); ; ) {
      if (step.done === true) {
        await this.#commit();
        return step.value;
      }
      const { name, text, isRead } = preparedText(step.value.text);
      if (!isRead && !this.#hasBegun) await this.#begin('BEGIN');
      this.#assertGoesOn();
      const { rows } = await this.#client.query<Row>({ name, text, values: [...step.value.values] });
      step = call.next(rows);
    }
  }

  #begin(text: string) {
    this.#hasBegun = true;
    return this.#client.query(text);
  }

  async #beginReplicated(): Promise<void> {
    // Several statements at once have a result each.
    const results = (await this.#begin(BEGIN_REPLICATED)) as unknown as { readonly rows: Row[] }[];
    if (results.at(-1)?.rows[0]?.['standbys'] === '')
      throw unsuitable('no replica can confirm a commit: Postgres has no synchronous_standby_names');
  }

  async #commit(): Promise<void> {
    if (!this.#isReplicated) return await this.#end('COMMIT');
    let isConfirmed = true;
    // Postgres commits all the same, and only warns, if no replica has confirmed that when the time of the statement is over.
    const warn = () => {
      isConfirmed = false;
    };
    this.#client.on('notice', warn);
    try {
      await this.#end('COMMIT');
    } finally {
      this.#client.off('notice', warn);
    }
    if (!isConfirmed)
      throw new ProtocolError('timeout', 'no replica of Postgres has confirmed a commit in time');
  }

  async #end(text: 'COMMIT' | 'ROLLBACK'): Promise<void> {
    if (!this.#hasBegun) return;
    this.#assertGoesOn();
    this.#hasBegun = false;
    await this.#client.query(text);
  }

  #assertGoesOn(): void {
    if (this.isOver) throw new ProtocolError('timeout', 'the time of the call is over');
  }
}
