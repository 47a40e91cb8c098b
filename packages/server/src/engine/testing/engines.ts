import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { isFull } from '../../../../../scripts/extent.js';
import type { Engine } from '../engine.js';
import type { ReplyLogs } from '../logs/logs.js';
import { memoryCluster } from '../memory.js';
import { postgres } from '../postgres.js';
import { redis } from '../redis.js';
import { sqlite } from '../sqlite.js';
import type { EngineFaults, StartedEngine } from '../suite/tests.js';
import { postgresMissing, startPostgres } from './postgres-server.js';
import { type RedisServer, redisMissing, startRedis, startValkey, valkeyMissing } from './redis-server.js';
import { createSilentProxy, type SilentProxy } from './silent-proxy.js';

interface Kind {
  readonly start: () => Promise<StartedEngine>;
  /** Why its tests are skipped; `undefined` if they are not. */
  readonly missing: string | undefined;
}

/** @throws {Error} if it keeps no replies. */
export function repliesOf(engine: Engine): ReplyLogs {
  const replies = engine.connectLogs?.();
  if (replies === undefined) throw new Error('it keeps no replies');
  return replies;
}

const kinds = (
  missing: string | undefined,
  all: Readonly<Record<string, () => Promise<StartedEngine>>>,
): Readonly<Record<string, Kind>> =>
  Object.fromEntries(Object.entries(all).map(([name, start]): [string, Kind] => [name, { start, missing }]));

const inFolder = (synchronous: 'normal' | 'full'): StartedEngine => {
  const folder = mkdtempSync(join(tmpdir(), 'parlance-engine-'));
  return {
    create: () => sqlite(join(folder, `${newPrefix()}.db`), { synchronous }),
    close: async () => rmSync(folder, { recursive: true }),
  };
};

/** Everything that is an engine. */
export const engines: Readonly<Record<string, Kind>> = {
  ...kinds(undefined, {
    memory: async () => ({ create: () => memoryCluster(), async close() {} }),
    sqlite: async () => inFolder('normal'),
    ...(isFull && { 'sqlite that waits for the disk': async () => inFolder('full') }),
  }),
  ...kinds(valkeyMissing, {
    valkey: async () => await behindProxy(await startValkey(...KEPT), byUrl),
  }),
  ...kinds(redisMissing, {
    'redis by URL': async () => await behindProxy(await startRedis(...KEPT), byUrl),
    'redis by a client of ioredis': async () =>
      await behindProxy(await startRedis(...KEPT), async (url) => {
        const client = new Redis(url, { lazyConnect: true });
        // A prefix may have a hash tag of its own.
        return { create: () => redis({ client, prefix: `{${newPrefix()}}:a` }), async close() {} };
      }),
    'redis by a client of node-redis': async () =>
      await behindProxy(await startRedis(...KEPT), async (url) => {
        const client = createClient({ url });
        return { create: () => redis({ client, prefix: newPrefix() }), async close() {} };
      }),
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

/** Answered writes outlive the process: with `everysec`, the last two seconds may be in its memory alone. */
const KEPT = ['--appendonly', 'yes', '--appendfsync', 'always'];
let prefixes = 0;
const newPrefix = () => `test${prefixes++}`;
const byUrl = async (url: string): Promise<StartedEngine> => ({
  create: () => redis({ url, prefix: newPrefix() }),
  async close() {},
});

/** A server whose connections go over a proxy, so that it can be made to fail. */
async function behindProxy(
  server: RedisServer,
  open: (url: string) => Promise<StartedEngine>,
): Promise<StartedEngine> {
  const proxy = await createSilentProxy(Number(new URL(server.url).port));
  const engine = await open(`redis://127.0.0.1:${proxy.port}`);
  return {
    create: engine.create,
    async close() {
      await engine.close();
      await proxy[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    },
    faults: faultsOf(server, proxy),
  };
}

function faultsOf(server: RedisServer, proxy: SilentProxy): EngineFaults {
  const setMemory = (bytes: number) => server.client.config('SET', 'maxmemory', bytes);
  return {
    async silence() {
      server.pause();
      return () => server.go();
    },
    async loseAnswers(answers) {
      proxy.silence('answers', answers);
    },
    async slow(ms) {
      proxy.delayMs = ms;
      return () => {
        proxy.delayMs = 0;
      };
    },
    async fill() {
      await setMemory(1);
      return async () => {
        await setMemory(0);
      };
    },
    async restart() {
      await server.kill();
      await server.restart();
    },
    async loseData() {
      await server.client.flushall();
    },
  };
}
