import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import {
  type PostgresServer,
  postgresMissing,
  startPostgres,
} from '../../../packages/server/src/engine/testing/postgres-server.js';
import { redisMissing, startRedis } from '../../../packages/server/src/engine/testing/redis-server.js';
import { createSilentProxy } from '../../../packages/server/src/engine/testing/silent-proxy.js';
import { diskMissing, mountDisk } from '../../../packages/server/src/engine/testing/small-disk.js';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import { type EngineAddress, MEMORY } from '../kit/engine-address.js';
import type { EngineName } from './matrix.js';

/** The store in which nodes keep their sessions, and its failures. */
export interface Store extends AsyncDisposable {
  readonly address: EngineAddress;
  /** Empties it; a server is killed, and starts again without data. */
  empty?(): Promise<void>;
  /** Replaces it by a replica that lacks what has happened in `step`. */
  failOver?(step: () => Promise<void>): Promise<void>;
  /** The present connections die without a word. */
  silence?(): void;
  /** Takes all room of its disk. @returns what gives it back */
  fill?(): Promise<() => void>;
}

/** Stores of one engine, one after the other. */
export interface Stores extends AsyncDisposable {
  start(): Promise<Store>;
}

/** Why the cells of an engine are skipped; `undefined` if they are not. */
export const MISSING: Readonly<Record<EngineName, string | undefined>> = {
  memory: undefined,
  SQLite: diskMissing,
  Redis: redisMissing,
  Postgres: postgresMissing,
};

export async function openStores(engine: EngineName): Promise<Stores> {
  const nothing = { async [Symbol.asyncDispose]() {} };
  switch (engine) {
    case 'memory':
      return { start: async () => ({ address: MEMORY, ...nothing }), ...nothing };
    case 'SQLite':
      return { start: startFile, ...nothing };
    case 'Redis':
      return { start: startRedisStore, ...nothing };
    case 'Postgres':
      return await openPostgres();
  }
}

/** On a disk of its own, if one can be mounted. */
async function startFile(): Promise<Store> {
  const disk = diskMissing === undefined ? mountDisk('32m') : undefined;
  const folder = disk?.folder ?? (await mkdtemp(join(tmpdir(), 'parlance-survival-')));
  const address = join(folder, 'parlance.db');
  return {
    address,
    async empty() {
      for (const end of ['', '-wal', '-shm']) await rm(`${address}${end}`, { force: true });
    },
    ...(disk && { fill: () => disk.fill() }),
    async [Symbol.asyncDispose]() {
      if (disk === undefined) await rm(folder, { recursive: true });
      else disk[Symbol.dispose]();
    },
  };
}

/** The address that nodes know as the server, and the way from there to it. */
async function openWay(port: number) {
  const way = await createCuttingProxy(port);
  const silent = await createSilentProxy(way.port);
  return {
    port: silent.port,
    way,
    silence: () => silent.silence('all'),
    async close() {
      await silent[Symbol.asyncDispose]();
      await way[Symbol.asyncDispose]();
    },
  };
}

async function startRedisStore(): Promise<Store> {
  const server = await startRedis();
  const { port, way, silence, close } = await openWay(portOf(server));
  const others: AsyncDisposable[] = [];
  return {
    address: `redis://127.0.0.1:${port}`,
    silence,
    async empty() {
      await server.kill();
      await server.restart();
    },
    async failOver(step) {
      const replica = await startRedis();
      const replication = await createCuttingProxy(portOf(server));
      others.push(replication, replica);
      await replica.client.replicaof('127.0.0.1', String(replication.port));
      const offsets = async () =>
        await Promise.all(
          [server, replica].map(
            async ({ client }) =>
              /(?:slave_repl_offset|master_repl_offset):(\d+)/.exec(await client.info('replication'))?.[1],
          ),
        );
      while (!/master_link_status:up/.test(await replica.client.info('replication'))) await pause(10);
      for (let [of, at] = await offsets(); of !== at; [of, at] = await offsets()) await pause(10);
      replication.freeze();
      replication.swallow(true);
      await step();
      await server.kill();
      await replica.client.replicaof('NO', 'ONE');
      way.redirect(portOf(replica));
      way.cut();
    },
    async [Symbol.asyncDispose]() {
      await close();
      for (const each of others) await each[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}

/** One server for all, as it takes seconds to create, and a database for each. */
async function openPostgres(): Promise<Stores> {
  const server = await startPostgres();
  let databases = 0;
  return {
    async start() {
      const database = `world${databases++}`;
      await server.query(`CREATE DATABASE ${database}`);
      return await startDatabase(server, database);
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

async function startDatabase(server: PostgresServer, database: string): Promise<Store> {
  const { port, way, silence, close } = await openWay(server.port);
  let replica: PostgresServer | undefined;
  return {
    address: `postgres://postgres@127.0.0.1:${port}/${database}`,
    silence,
    async empty() {
      await server.kill();
      way.refuse(true);
      await server.restart();
      await server.query(`DROP DATABASE ${database} WITH (FORCE)`);
      await server.query(`CREATE DATABASE ${database}`);
      way.refuse(false);
    },
    async failOver(step) {
      const next = await server.startReplica('next');
      replica = next;
      const is = async (of: PostgresServer, what: string) =>
        (await of.query(`SELECT ${what} AS it`))[0]?.['it'];
      const end = await is(server, 'pg_current_wal_lsn()');
      while (!(await is(next, `pg_last_wal_replay_lsn() >= '${end}'`))) await pause(20);
      await next.query("ALTER SYSTEM SET primary_conninfo = ''");
      await next.query('SELECT pg_reload_conf()');
      while (await is(next, 'EXISTS (SELECT FROM pg_stat_wal_receiver)')) await pause(20);
      await step();
      await server.kill();
      await next.promote();
      way.redirect(next.port);
      way.cut();
    },
    async [Symbol.asyncDispose]() {
      await close();
      await replica?.[Symbol.asyncDispose]();
      if (replica !== undefined) await server.restart();
      await server.query(`DROP DATABASE ${database} WITH (FORCE)`);
    },
  };
}

const portOf = ({ url }: { readonly url: string }): number => Number(new URL(url).port);
