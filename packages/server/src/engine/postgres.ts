import { ProtocolError } from '@parlance/protocol';
import { assertOptions } from '@parlance/protocol/internal';
import type { Engine, EngineConnection } from './engine.js';
import { PostgresDatabase, type SchemaState } from './postgres/database.js';
import type { PostgresServers } from './postgres/pool.js';
import { SqlConnection } from './sql/connection.js';
import { sqlReplies } from './sql/logs.js';
import { sqlStore } from './sql/store.js';
import { Sweeper } from './sql/sweeper.js';

export interface PostgresOptions {
  /**
   * The schema of all tables: servers that share a database and nothing else need different ones. It is created if it
   * does not exist, and has 1 to 48 lower-case letters, digits or `_`, beginning with a letter.
   *
   * @default 'parlance'
   */
  readonly schema?: string | undefined;
  /**
   * Connections of one node for sessions, and as many for logs; there are two more, over which it is notified of
   * changes.
   *
   * @default 8
   */
  readonly maxConnections?: number | undefined;
}

const KINDS = { schema: 'text', maxConnections: 'number' } as const;

/**
 * Joins nodes that share a database of Postgres (13 or newer), whose encoding is UTF8. Needs the package `pg`.
 *
 * @param url such as `postgres://user:password@10.0.0.5:5432/app?sslmode=verify-full`. With several hosts between commas, such as
 * `postgres://user:password@10.0.0.5,10.0.0.6:5433/app`, the one that takes writes is found, also when that changes.
 * @throws {ProtocolError} `invalid_option`.
 */
export function postgres(url: string, options: PostgresOptions = {}): Engine {
  assertOptions({ url }, { url: 'text' }, 'postgres');
  assertOptions(options, KINDS, 'postgres');
  const { schema = 'parlance', maxConnections = 8 } = options;
  if (!/^[a-z][a-z0-9_]{0,47}$/.test(schema))
    throw invalid('schema must be 1 to 48 lower-case letters, digits or "_" and begin with a letter');
  if (!Number.isInteger(maxConnections) || maxConnections < 1)
    throw invalid(`maxConnections must be a whole number from 1 on, not ${maxConnections}`);
  const servers: PostgresServers = { urls: urlsOf(url), schema, maxConnections };
  const state: SchemaState = { ready: undefined };
  const sweeping = new Sweeping();
  const engine: Engine = {
    connect: () => new PostgresConnection(new PostgresDatabase(servers, state), sweeping),
    connectLogs: () => sqlReplies(new PostgresDatabase(servers, state)),
    connectStore: () => sqlStore(new PostgresDatabase({ ...servers, maxConnections: 1 }, state)),
  };
  return engine;
}

/** Deletes what is over, over one of the connections of a node: each of its parts has one. */
class Sweeping {
  readonly #open = new Set<PostgresDatabase>();
  #sweeper: Sweeper | undefined;

  begin(database: PostgresDatabase): void {
    this.#open.add(database);
    this.#sweeper ??= new Sweeper({
      dialect: database.dialect,
      run: (begin) => {
        const [first = database] = this.#open;
        return first.run(begin);
      },
    });
  }

  end(database: PostgresDatabase): void {
    this.#open.delete(database);
    if (this.#open.size > 0) return;
    this.#sweeper?.stop();
    this.#sweeper = undefined;
  }
}

class PostgresConnection extends SqlConnection implements EngineConnection {
  readonly #end: () => void;

  constructor(database: PostgresDatabase, sweeping: Sweeping) {
    super(database);
    sweeping.begin(database);
    this.#end = () => sweeping.end(database);
  }

  override async close(): Promise<void> {
    this.#end();
    await super.close();
  }
}

/** A URL for each host. @throws {ProtocolError} `invalid_option`; it must not show the URL, which may hold a password. */
function urlsOf(url: string): readonly string[] {
  const [, before = '', hosts = '', after = ''] =
    /^(postgres(?:ql)?:\/\/(?:[^/?@]*@)?)([^/?]*)(.*)$/.exec(url) ?? [];
  const urls = hosts.split(',').map((host) => `${before}${host}${after}`);
  if (before === '' || !urls.every((each) => URL.canParse(each)))
    throw invalid('the URL must begin with postgres:// and a host');
  return urls;
}

function invalid(message: string): ProtocolError {
  return new ProtocolError('invalid_option', `postgres: ${message}`);
}
