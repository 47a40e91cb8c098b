import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { afterAll, afterEach, beforeAll, describe, it } from 'vitest';
import type { Engine, EngineConnection } from '../engine.js';
import type { ReplyLogs } from '../logs/logs.js';
import { memoryCluster } from '../memory.js';
import { postgres } from '../postgres.js';
import { redis } from '../redis.js';
import { sqlite } from '../sqlite.js';
import { postgresMissing, startPostgres } from './postgres-server.js';
import { type RedisServer, redisMissing, startRedis, startValkey, valkeyMissing } from './redis-server.js';

interface Started {
  /** A cluster without nodes. */
  create(): Engine;
  close(): PromiseLike<void>;
}

interface Kind {
  readonly start: () => Promise<Started>;
  /** Why its tests are skipped; `undefined` if they are not. */
  readonly missing: string | undefined;
}

/** What a test has of an engine: a cluster without nodes, whose connections are closed after the test. */
export interface EngineTest {
  connect(): EngineConnection;
  /** Of another cluster of the same engine. */
  connectElsewhere(): EngineConnection;
  connectLogs(): ReplyLogs;
}

/** Runs the same tests with everything that is an engine. */
export function describeEngines(
  what: string,
  define: (test: (name: string, run: (engine: EngineTest) => Promise<void>) => void) => void,
): void {
  for (const [name, { start, missing }] of Object.entries(engines)) {
    describe(`${what} ${name}`, () => {
      let engine: Started;
      const open: { close(): Promise<void> }[] = [];
      beforeAll(async () => {
        if (missing === undefined) engine = await start();
      });
      afterEach(async () => {
        for (const each of open.splice(0)) await each.close();
      });
      afterAll(async () => {
        if (missing === undefined) await engine.close();
      });
      define((test, run) =>
        it.skipIf(missing !== undefined)(missing === undefined ? test : `${test} (${missing})`, async () => {
          const cluster = engine.create();
          const opened = <Each extends { close(): Promise<void> }>(each: Each): Each => {
            open.push(each);
            return each;
          };
          await run({
            connect: () => opened(cluster.connect()),
            connectElsewhere: () => opened(engine.create().connect()),
            connectLogs: () => opened(repliesOf(cluster)),
          });
        }));
    });
  }
}

/** @throws {Error} if it keeps no replies. */
export function repliesOf(engine: Engine): ReplyLogs {
  const replies = engine.connectLogs?.();
  if (replies === undefined) throw new Error('it keeps no replies');
  return replies;
}

const byUrl = (server: RedisServer): Started => ({
  create: () => redis({ url: server.url, prefix: newPrefix() }),
  close: () => server[Symbol.asyncDispose](),
});

const kinds = (missing: string | undefined, all: Readonly<Record<string, () => Promise<Started>>>) =>
  Object.fromEntries(Object.entries(all).map(([name, start]): [string, Kind] => [name, { start, missing }]));

const inFolder = (synchronous: 'normal' | 'full'): Started => {
  const folder = mkdtempSync(join(tmpdir(), 'parlance-engine-'));
  return {
    create: () => sqlite(join(folder, `${newPrefix()}.db`), { synchronous }),
    close: async () => rmSync(folder, { recursive: true }),
  };
};

const engines: Readonly<Record<string, Kind>> = {
  ...kinds(undefined, {
    memory: async () => ({ create: () => memoryCluster(), async close() {} }),
    sqlite: async () => inFolder('normal'),
    'sqlite that waits for the disk': async () => inFolder('full'),
  }),
  ...kinds(valkeyMissing, { valkey: async () => byUrl(await startValkey()) }),
  ...kinds(redisMissing, {
    'redis by URL': async () => byUrl(await startRedis()),
    'redis by a client of ioredis': async () => {
      const server = await startRedis();
      const client = new Redis(server.url);
      return {
        // A prefix may have a hash tag of its own.
        create: () => redis({ client, prefix: `{${newPrefix()}}:a` }),
        async close() {
          client.disconnect();
          await server[Symbol.asyncDispose]();
        },
      };
    },
    'redis by a client of node-redis': async () => {
      const server = await startRedis();
      const client = createClient({ url: server.url });
      client.on('error', () => {});
      await client.connect();
      return {
        create: () => redis({ client, prefix: newPrefix() }),
        async close() {
          client.destroy();
          await server[Symbol.asyncDispose]();
        },
      };
    },
  }),
  ...kinds(postgresMissing, {
    postgres: async () => {
      const server = await startPostgres();
      return {
        create: () => postgres(server.url, { schema: newPrefix() }),
        close: () => server[Symbol.asyncDispose](),
      };
    },
  }),
};
let prefixes = 0;
const newPrefix = () => `test${prefixes++}`;
