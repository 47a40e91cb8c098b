import { isProtocolError, ProtocolError } from '@parlance/protocol';
import type { Client, Pool, PoolClient } from 'pg';
import { ENGINE_TIMEOUT_MS } from '../engine.js';
import { within } from '../late.js';
import type { Row } from '../sql/call.js';
import { closed, failed, tooLate, unsuitable } from './errors.js';

/** How long opening a connection may take, in milliseconds. */
const OPEN_TIMEOUT_MS = 2 * ENGINE_TIMEOUT_MS;
/** A statement ends before its call is given up, so that the connection can be used again; in milliseconds. */
const STATEMENT_MS = 0.8 * ENGINE_TIMEOUT_MS;
/** Calls that may wait for a connection; with more, each is refused. */
const MAX_WAITING = 4_096;
/** How long a connection that is not used is kept, in milliseconds. */
const IDLE_MS = 30_000;
/** After no server could be reached, in milliseconds: the first delay, which grows by itself, and the longest. */
const FIRST_RETRY_MS = 50;
const LAST_RETRY_MS = 1_000;
/** In place of the time at which a connection was last seen to work: it has no settings yet. */
const NOT_PREPARED = -1;
/** 13. */
const OLDEST = 130_000;
/** Types of Postgres: `bigint`, and `numeric`, which sums of it are. */
const NUMBERS: readonly number[] = [20, 1700];

export interface PostgresServers {
  /** One for each server, of which one takes writes. */
  readonly urls: readonly string[];
  readonly schema: string;
  readonly maxConnections: number;
}

type Pg = typeof import('pg');

/** Connections to the server that takes writes, whichever of several that is. */
export class PostgresPool {
  readonly #servers: PostgresServers;
  #pool: Pool | undefined;
  /** Which server is asked. */
  #at = 0;
  #hasBeenOpen = false;
  #failures = 0;
  #retryAt = 0;
  #lastFailure: Error | undefined;
  #isClosed = false;
  #giveUp = (): void => {};
  readonly #closing = new Promise<never>((_resolve, reject) => {
    this.#giveUp = () => reject(closed());
  });
  /** Those that are open, and when each was last seen to work: a reading of `performance.now()`. */
  readonly #clients = new Map<Client, number>();
  /** Those that have not worked since then may be lost without a word. */
  #suspectedAt = 0;

  constructor(servers: PostgresServers) {
    this.#servers = servers;
    this.#closing.catch(() => {});
  }

  /**
   * A connection, which has to be given back.
   *
   * @throws {ProtocolError} `connection_failed`, `timeout`; `unsupported` if the server is unsuitable.
   */
  async take(): Promise<PoolClient> {
    for (let tried = 1; ; ) {
      try {
        const client = await this.#take();
        if ((this.#clients.get(client) ?? 0) >= this.#suspectedAt) return client;
        client.release(true);
      } catch (error) {
        const isLate = isProtocolError(error) && error.code === 'timeout';
        if (isLate || this.#isClosed || tried++ >= this.#servers.urls.length) throw failed(error);
      }
    }
  }

  /** @param why it can be used no more. */
  give(client: PoolClient, why?: Error): void {
    if (why === undefined) this.#clients.set(client, performance.now());
    client.release(why);
  }

  /** Connections that have not worked since then are not used again. @param since a reading of `performance.now()`. */
  suspect(since: number): void {
    this.#suspectedAt = Math.max(this.#suspectedAt, since);
  }

  async #take(): Promise<PoolClient> {
    const pool = await this.#dial();
    if (pool.waitingCount >= MAX_WAITING)
      throw new ProtocolError('timeout', 'Postgres has not answered earlier calls');
    if (pool.totalCount === 0) this.#assertDue();
    const isQueued = pool.idleCount === 0 && pool.totalCount >= this.#servers.maxConnections;
    const opening = this.#connected(pool, isQueued);
    const ms = this.#hasBeenOpen ? ENGINE_TIMEOUT_MS : OPEN_TIMEOUT_MS;
    let isAwaited = true;
    opening.then(
      // It comes too late.
      (client) => isAwaited || client.release(),
      () => {},
    );
    const client = await within(Promise.race([opening, this.#closing]), ms, () => {
      isAwaited = false;
      return tooLate(ms);
    });
    this.#handleOpen();
    return client;
  }

  async #connected(pool: Pool, isQueued: boolean): Promise<PoolClient> {
    try {
      const client = await pool.connect();
      if (this.#clients.get(client) !== NOT_PREPARED) return client;
      // Not by the option `verify` of pg: if the call is given up meanwhile, its pool never gets the connection back.
      try {
        await within(this.#prepare(client), OPEN_TIMEOUT_MS, tooLate);
      } catch (error) {
        client.release(true);
        throw error;
      }
      this.#clients.set(client, performance.now());
      return client;
    } catch (error) {
      // All are in use otherwise, which says nothing of the server.
      if (!isQueued) this.#handleFailure(pool, error);
      throw error;
    }
  }

  /** A connection that is used alone, which has to be ended. @throws {ProtocolError} as {@link take}. */
  async open(): Promise<Client> {
    const pg = await load();
    const pool = await this.#dial();
    this.#assertDue();
    const client = new pg.Client(this.#configOf());
    client.on('error', () => {});
    try {
      await within(this.#opened(client), OPEN_TIMEOUT_MS, tooLate);
      return client;
    } catch (error) {
      cut(client);
      this.#handleFailure(pool, error);
      throw failed(error);
    }
  }

  /** Ends connections that are not in use, and the others when they are released, or after a while. Never rejects. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#giveUp();
    const pool = this.#pool;
    this.#pool = undefined;
    if (pool === undefined) return;
    try {
      await within(pool.end(), ENGINE_TIMEOUT_MS, tooLate);
    } catch {
      for (const client of this.#clients.keys()) cut(client);
    }
  }

  /** The server takes no writes any more: the next call looks for another one. */
  leave(why: unknown): void {
    if (this.#pool !== undefined) this.#handleFailure(this.#pool, why);
  }

  async #dial(): Promise<Pool> {
    if (this.#isClosed) throw closed();
    if (this.#pool !== undefined) return this.#pool;
    const pg = await load();
    if (this.#isClosed) throw closed();
    this.#pool ??= this.#create(pg);
    return this.#pool;
  }

  #create(pg: Pg): Pool {
    const pool = new pg.Pool({
      ...this.#configOf(),
      max: this.#servers.maxConnections,
      idleTimeoutMillis: IDLE_MS,
      connectionTimeoutMillis: OPEN_TIMEOUT_MS,
    });
    pool.on('connect', (client) => {
      client.on('error', () => {});
      this.#clients.set(client, NOT_PREPARED);
    });
    pool.on('remove', (client) => this.#clients.delete(client));
    // Of a connection that is not in use.
    pool.on('error', () => {});
    return pool;
  }

  #configOf() {
    return {
      connectionString: this.#servers.urls[this.#at],
      application_name: 'parlance',
      keepAlive: true,
      types: {
        getTypeParser: (type: number, format?: 'text' | 'binary') =>
          NUMBERS.includes(type) ? Number : loaded().types.getTypeParser(type, format as 'text'),
      },
    };
  }

  async #opened(client: Client): Promise<void> {
    await client.connect();
    await this.#prepare(client);
  }

  /** @throws {ProtocolError} `connection_failed` if the server takes no writes; `unsupported` if it is unsuitable. */
  async #prepare(client: Client): Promise<void> {
    // Several statements at once have a result each.
    const results = (await client.query(`SET search_path TO "${this.#servers.schema}";
      SET statement_timeout TO ${STATEMENT_MS};
      SET idle_in_transaction_session_timeout TO ${ENGINE_TIMEOUT_MS};
      SELECT CASE WHEN pg_is_in_recovery() THEN 1 ELSE 0 END AS is_replica,
        current_setting('server_version_num') AS version, current_setting('server_encoding') AS encoding`)) as unknown;
    const { is_replica, version, encoding } = (results as { readonly rows: Row[] }[]).at(-1)?.rows[0] ?? {};
    if (is_replica === 1)
      throw new ProtocolError(
        'connection_failed',
        'Postgres: this server is a replica, which takes no writes',
      );
    if (Number(version) < OLDEST)
      throw unsuitable(`this server needs Postgres ${OLDEST / 10_000} or newer; this is ${version}`);
    if (encoding !== 'UTF8') throw unsuitable(`the database must have the encoding UTF8; it has ${encoding}`);
  }

  /** @throws {ProtocolError} what the last attempt has failed with, until it is time for the next one. */
  #assertDue(): void {
    if (this.#lastFailure !== undefined && performance.now() < this.#retryAt) throw this.#lastFailure;
  }

  #handleOpen(): void {
    this.#hasBeenOpen = true;
    this.#failures = 0;
    this.#lastFailure = undefined;
  }

  /** Turns to the next server; when none could be reached, waits for a while. */
  #handleFailure(pool: Pool, cause: unknown): void {
    // Others have failed with the same server.
    if (this.#pool !== pool || this.#isClosed) return;
    this.#failures++;
    const { length } = this.#servers.urls;
    if (this.#failures % length === 0) {
      const rounds = this.#failures / length;
      this.#retryAt = performance.now() + Math.min(FIRST_RETRY_MS * rounds, LAST_RETRY_MS);
      this.#lastFailure = failed(cause);
    }
    if (length === 1) return;
    this.#at = (this.#at + 1) % length;
    this.#pool = undefined;
    pool.end().catch(() => {});
  }
}

/** Ends a connection at once. */
export function cut(client: Client): void {
  const { connection } = client as unknown as { connection?: { stream?: { destroy(): void } } };
  connection?.stream?.destroy();
}

let library: Pg | undefined;

/** @throws {ProtocolError} `unsupported`. */
async function load(): Promise<Pg> {
  try {
    library ??= (await import('pg')).default as unknown as Pg;
    return library;
  } catch (cause) {
    throw unsuitable('postgres(url) needs the package pg: run "npm install pg"', cause);
  }
}

/** After `load`. */
const loaded = (): Pg => library as Pg;
