import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { DEFAULT_TIMERS } from '@parlance/protocol';
import { describe, expect, it, vi } from 'vitest';
import { RecordKeeper } from '../cluster/record-keeper.js';
import { createServer } from '../create-server.js';
import type { Engine } from '../engine/engine.js';
import { postgres } from '../engine/postgres.js';
import { redis } from '../engine/redis.js';
import { sqlite } from '../engine/sqlite.js';
import { postgresMissing, startPostgres } from '../engine/testing/postgres-server.js';
import { redisMissing, startRedis } from '../engine/testing/redis-server.js';
import { cluster, durable } from '../index.js';
import { retentionMsOf } from '../session/durable-rules.js';
import type { ServerEndpoint } from '../session/endpoint.js';
import { Capacity } from './capacity.js';

/** Commands or statements that an engine gets while all its sessions are idle. */

const SESSIONS = 10_000;
const MAX_PER_SECOND = 50;
const IDLE_MS = 2_000;
const logger = { debug() {}, info() {}, warn: console.warn, error: console.error };

const counted = vi.hoisted(() => ({ statements: 0 }));
vi.mock('../engine/sqlite/library.js', async (original) => {
  const { DatabaseSync } = (await original<typeof import('../engine/sqlite/library.js')>()).loadLibrary();
  class Counted extends DatabaseSync {
    override prepare(text: string) {
      const statement = super.prepare(text);
      const all: typeof statement.all = (...values) => {
        counted.statements++;
        return statement.all(...values);
      };
      return { all };
    }
  }
  return { loadLibrary: () => ({ DatabaseSync: Counted }) };
});

interface Watched extends AsyncDisposable {
  /** That of another node. */
  create(): Engine;
  readonly nodes: number;
  /** Commands or statements so far. */
  count(): Promise<number>;
}

async function watchSqlite(): Promise<Watched> {
  const folder = mkdtempSync(join(tmpdir(), 'parlance-idle-'));
  const before = counted.statements;
  return {
    create: () => sqlite(join(folder, 'parlance.db')),
    nodes: 1,
    count: async () => counted.statements - before,
    async [Symbol.asyncDispose]() {
      rmSync(folder, { recursive: true });
    },
  };
}

async function watchRedis(): Promise<Watched> {
  const server = await startRedis();
  const monitor = await server.client.monitor();
  let commands = 0;
  let marked = (): void => {};
  monitor.on('monitor', (_time: string, [, mark]: readonly string[], source: string) => {
    if (mark === 'parlance-mark') marked();
    else if (source !== 'lua') commands++;
  });
  return {
    create: () => redis({ url: server.url }),
    nodes: 3,
    async count() {
      // It is reported after all commands before it.
      const reported = new Promise<void>((resolve) => {
        marked = resolve;
      });
      await server.client.echo('parlance-mark');
      await reported;
      return commands;
    },
    async [Symbol.asyncDispose]() {
      monitor.disconnect();
      await server[Symbol.asyncDispose]();
    },
  };
}

async function watchPostgres(): Promise<Watched> {
  const server = await startPostgres("shared_preload_libraries = 'pg_stat_statements'");
  await server.query('CREATE EXTENSION pg_stat_statements');
  return {
    create: () => postgres(server.url),
    nodes: 3,
    async count() {
      const [row] = await server.query(
        "SELECT sum(calls)::int AS calls FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat_statements%'",
      );
      return Number(row?.['calls']);
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

const ENGINES = {
  SQLite: { missing: undefined, watch: watchSqlite },
  Redis: { missing: redisMissing, watch: watchRedis },
  Postgres: { missing: postgresMissing, watch: watchPostgres },
};

/** Each second, by nodes that have no session. */
async function byNodes({ create, nodes: size, count }: Watched): Promise<number> {
  const all = Array.from({ length: size }, () => {
    const features = [
      ...(size > 1 ? [cluster({ secret: 'a secret of a test' })] : []),
      durable(true, { allowVolatileEngine: true }),
    ];
    return createServer({
      engine: create(),
      features,
      logger,
      authenticate: ({ token }) => ({ principal: token ?? '' }),
    });
  });
  for (const each of all) await each.listen({ port: 0 });
  await pause(IDLE_MS);
  const [before, from] = [await count(), performance.now()];
  await pause(IDLE_MS);
  const perSecond = ((await count()) - before) / ((performance.now() - from) / 1_000);
  for (const each of all) await each.close();
  return perSecond;
}

/** Each second, to keep the records and the bytes of all sessions. */
async function bySessions({ create, count }: Watched): Promise<number> {
  const link = create().connect();
  const retentionMs = retentionMsOf(DEFAULT_TIMERS);
  const renewals: Promise<boolean>[] = [];
  const newSession = (id: string): ServerEndpoint => {
    const limits = { maxSessionBytes: 1e6, maxPrincipalBytes: 1e6, ttlMs: retentionMs };
    const capacity = new Capacity({ link, sessionId: id, account: `principal of ${id}`, ...limits });
    const record = { tidy: () => void renewals.push(capacity.grow(Math.max(1, capacity.bytes))) };
    return { id, epoch: 0, isDurable: true, record } as unknown as ServerEndpoint;
  };
  const ids = Array.from({ length: SESSIONS }, (_, i) => `sess_${i}`);
  const sessions = new Map(ids.map((id) => [id, newSession(id)]));
  const keeper = new RecordKeeper({ incarnation: 'aaaaaa', sessions, link: () => link, retentionMs, logger });
  // On a busy machine a call may be given up after a second; the keeper begins again then, as it does here.
  const countRound = async (): Promise<number> => {
    for (let tries = 1; ; tries++) {
      const before = await count();
      await keeper.keepAll();
      const settled = (renewal: Promise<boolean>) => renewal.catch((error: Error) => error.message);
      const kept = await Promise.all(renewals.splice(0).map(settled));
      const isLate = kept.length < SESSIONS || kept.some((each) => typeof each === 'string');
      if (isLate && tries < 5) continue;
      expect(kept).toHaveLength(SESSIONS);
      expect(new Set(kept)).toEqual(new Set([true]));
      return (await count()) - before;
    }
  };
  await countRound();
  const each = await countRound();
  expect(await link.findSession('sess_9999')).toEqual({ owner: 'aaaaaa', epoch: 0 });
  await link.close();
  return each / (retentionMs / 2 / 1_000);
}

describe.concurrent(`${SESSIONS} idle durable sessions`, () => {
  for (const [name, { missing, watch }] of Object.entries(ENGINES))
    it.skipIf(missing !== undefined)(`cost ${name} at most ${MAX_PER_SECOND} calls a second`, async () => {
      await using watched = await watch();
      const ofSessions = await bySessions(watched);
      const ofNodes = await byNodes(watched);
      if (process.env['SHOW']) console.log(name, ofNodes, ofSessions);
      expect(ofSessions).toBeGreaterThan(0);
      expect(ofNodes + ofSessions).toBeLessThanOrEqual(MAX_PER_SECOND);
    });
});
