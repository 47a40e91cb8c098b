import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  postgresMissing,
  startPostgres,
} from '../../../../packages/server/src/engine/testing/postgres-server.js';
import {
  type RedisServer,
  redisMissing,
  startRedis,
} from '../../../../packages/server/src/engine/testing/redis-server.js';
import { diskMissing, mountDisk } from '../../../../packages/server/src/engine/testing/small-disk.js';
import { MEMORY } from '../../kit/engine-address.js';
import type { MemberEngine } from '../cluster/members.js';
import { type Mix, USUAL_MIX } from './steps.js';

/** The engines that histories are run on, and how each can fail. */

/** An engine that can fail by itself; proxies make the network between a node and its engine fail. */
export interface InteractionEngine extends MemberEngine {
  /** Kills it, and starts it again with its data after a while. */
  restart?(ms: number): Promise<void>;
  /** It takes no writes for a while. */
  fill?(ms: number): Promise<void>;
}

export interface EngineKind {
  /** Why it cannot be run. */
  readonly missing: string | undefined;
  /** At a time. */
  readonly nodes: number;
  /** How often each failure happens; `undefined` for one that cannot happen to this engine. */
  readonly mix: Pick<Mix, 'nodes' | 'engine'>;
  start(): Promise<InteractionEngine>;
}

const { nodes, engine } = USUAL_MIX;

export const ENGINE_KINDS = {
  redis: { missing: redisMissing, nodes: 3, mix: { nodes, engine }, start: startRedisEngine },
  postgres: { missing: postgresMissing, nodes: 3, mix: { nodes, engine }, start: startPostgresEngine },
  /** One process has the file. A disk that cannot be mounted cannot be filled. */
  sqlite: {
    missing: undefined,
    nodes: 1,
    mix: {
      nodes: { kill: 50, drain: 25, pause: 25, part: 0 },
      engine: { slow: 0, silence: 0, restart: 0, fill: diskMissing === undefined ? 1 : 0 },
    },
    start: startFile,
  },
  /** The nodes share a process: its death is the end of all, as SURVIVAL.md says. */
  memory: {
    missing: undefined,
    nodes: 3,
    mix: {
      nodes: { kill: 0, drain: 60, pause: 40, part: 0 },
      engine: { slow: 50, silence: 20, restart: 0, fill: 30 },
    },
    start: async () => ({ address: MEMORY, async [Symbol.asyncDispose]() {} }),
  },
} as const satisfies Readonly<Record<string, EngineKind>>;

export type EngineOfHistory = keyof typeof ENGINE_KINDS;

async function startRedisEngine(): Promise<InteractionEngine> {
  // With `everysec`, Redis may hold writes back for 2 s while the disk is slow, and lose them when it is killed.
  const server = await startRedis('--appendonly', 'yes', '--appendfsync', 'always');
  return {
    address: server.url,
    restart: restartsOf(server),
    async fill(ms) {
      await server.client.config('SET', 'maxmemory', '1');
      await sleep(ms);
      await server.client.config('SET', 'maxmemory', '0');
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

async function startPostgresEngine(): Promise<InteractionEngine> {
  // The system keeps what a process has written that is killed, and all replies of one principal wait for each other's commit.
  const server = await startPostgres('fsync = off');
  const readOnly = async (isOn: boolean) => {
    await server.query(`ALTER SYSTEM SET default_transaction_read_only = ${isOn ? 'on' : 'off'}`);
    await server.query('SELECT pg_reload_conf()');
  };
  return {
    address: server.url,
    restart: restartsOf(server),
    async fill(ms) {
      await readOnly(true);
      await sleep(ms);
      await readOnly(false);
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

/** A server that takes long to start is killed again only when it has started. */
function restartsOf(server: Pick<RedisServer, 'kill' | 'restart'>): (ms: number) => Promise<void> {
  let last = Promise.resolve();
  return (ms) => {
    last = last.then(async () => {
      await server.kill();
      await sleep(ms);
      await server.restart();
    });
    return last;
  };
}

async function startFile(): Promise<InteractionEngine> {
  const disk = diskMissing === undefined ? mountDisk('512m') : undefined;
  const folder = disk?.folder ?? (await mkdtemp(join(tmpdir(), 'parlance-chaos-')));
  return {
    address: join(folder, 'parlance.db'),
    async fill(ms) {
      const relieve = await disk?.fill();
      await sleep(ms);
      relieve?.();
    },
    async [Symbol.asyncDispose]() {
      if (disk === undefined) await rm(folder, { recursive: true, force: true });
      else disk[Symbol.dispose]();
    },
  };
}
