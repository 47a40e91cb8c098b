import { ENGINE_TIMEOUT_MS } from '../engine.js';
import { within } from '../late.js';
import { ask, type SqlCall, type SqlDatabase } from '../sql/call.js';
import { Wakes } from '../sql/wakes.js';
import { DIALECT } from './dialect.js';
import { closed, failed, isBroken, isMissing, isUnusable, tooLate } from './errors.js';
import { migrate } from './migrate.js';
import { Notifier } from './notifier.js';
import { PostgresPool, type PostgresServers } from './pool.js';
import { Transaction } from './transaction.js';

/** How long a call waits for the schema to be created, in milliseconds. */
const SCHEMA_MS = 2 * ENGINE_TIMEOUT_MS;

/** Whether the schema is there, as far as the nodes of one process know. */
export interface SchemaState {
  ready: Promise<void> | undefined;
}

/** A database of Postgres, as one node uses it for one purpose. */
export class PostgresDatabase implements SqlDatabase {
  readonly dialect = DIALECT;
  readonly #schema: string;
  readonly #state: SchemaState;
  readonly #pool: PostgresPool;
  readonly #wakes = new Wakes();
  readonly #notifier: Notifier;
  #isClosed = false;

  constructor(servers: PostgresServers, state: SchemaState) {
    this.#schema = servers.schema;
    this.#state = state;
    this.#pool = new PostgresPool(servers);
    this.#notifier = new Notifier(servers.schema, () => this.#pool.open(), this.#wakes);
  }

  async run<Result>(begin: () => SqlCall<Result>, isReplicated = false): Promise<Result> {
    if (this.#isClosed) throw closed();
    try {
      await this.#prepared();
      return await this.#run(begin, isReplicated);
    } catch (error) {
      // The schema was removed.
      if (isMissing(error)) this.#state.ready = undefined;
      throw failed(error);
    }
  }

  async isVolatile(): Promise<boolean> {
    const names = ['fsync', 'full_page_writes', 'synchronous_commit'];
    const columns = names.map((name) => `current_setting('${name}') AS ${name}`).join(', ');
    const [settings] = await this.run(() => ask(`SELECT ${columns}`));
    return names.some((name) => settings?.[name] === 'off');
  }

  wake(topic: string, hint = ''): void {
    this.#wakes.wake(topic, hint);
    this.#notifier.ring(topic, hint);
  }

  watch(topic: string, onWake: (hint: string | undefined) => void): () => void {
    this.#notifier.listen();
    return this.#wakes.watch(topic, onWake, this.#notifier.isListening);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([this.#notifier.close(), this.#pool.close()]);
  }

  async #prepared(): Promise<void> {
    this.#state.ready ??= this.#migrate();
    await within(this.#state.ready, SCHEMA_MS, tooLate);
  }

  async #migrate(): Promise<void> {
    try {
      const client = await this.#pool.take();
      try {
        await migrate(client, this.#schema);
        this.#pool.give(client);
      } catch (error) {
        this.#pool.give(client, error as Error);
        throw failed(error);
      }
    } catch (error) {
      this.#state.ready = undefined;
      throw error;
    }
  }

  async #run<Result>(begin: () => SqlCall<Result>, isReplicated: boolean): Promise<Result> {
    const client = await this.#pool.take();
    const transaction = new Transaction(client, isReplicated);
    const beganAt = performance.now();
    try {
      const result = await within(transaction.run(begin), ENGINE_TIMEOUT_MS, tooLate);
      this.#pool.give(client);
      return result;
    } catch (error) {
      const isLate = !transaction.isDone;
      transaction.isOver = true;
      if (isLate) this.#pool.suspect(beganAt);
      if (isUnusable(error)) this.#pool.leave(error);
      this.#pool.give(client, isLate || isBroken(error) ? (error as Error) : undefined);
      throw error;
    }
  }
}
