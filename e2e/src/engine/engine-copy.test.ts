import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { type ClientSession, connect } from '@parlance/client';
import { afterAll, beforeAll, expect, it } from 'vitest';
import WebSocket from 'ws';
import {
  type PostgresServer,
  postgresMissing,
  startPostgres,
} from '../../../packages/server/src/engine/testing/postgres-server.js';
import {
  type RedisServer,
  redisMissing,
  startRedis,
} from '../../../packages/server/src/engine/testing/redis-server.js';
import { run } from '../kit/cli-process.js';
import { type CuttingProxy, createCuttingProxy } from '../kit/cutting-proxy.js';
import { type DurableNode, startDurableNode } from '../kit/programs.js';

/** `parlance engine copy`: a server that is stopped continues with another engine, and its clients with it. */

const missing = redisMissing ?? postgresMissing;
const PARTS = 400;

let folder = '';
let redis: RedisServer;
let postgres: PostgresServer;
let node: DurableNode;
let front: CuttingProxy;
let session: ClientSession | undefined;
beforeAll(async () => {
  if (missing !== undefined) return;
  folder = mkdtempSync(join(tmpdir(), 'parlance-copy-'));
  [redis, postgres] = await Promise.all([startRedis(), startPostgres()]);
});
afterAll(async () => {
  if (missing !== undefined) return;
  void session?.close();
  await front?.[Symbol.asyncDispose]();
  await node?.process.kill();
  await redis[Symbol.asyncDispose]();
  await postgres[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

it.skipIf(missing !== undefined)(
  missing ?? 'clients continue, from file to Redis to Postgres to file',
  async () => {
    const [file, last] = ['first.db', 'last.db'].map((name) => join(folder, name)) as [string, string];
    // A slow machine makes it say how far it is.
    const copy = async (from: string, to: string) => {
      const { stderr, ...rest } = await run(['engine', 'copy', from, to]);
      return { ...rest, stderr: stderr.replaceAll(/^.* so far\n/gm, '') };
    };
    node = await startDurableNode({ url: file });
    front = await createCuttingProxy(() => node.port);
    session = await connect(`ws://127.0.0.1:${front.port}/session`, {
      WebSocket,
      waitForServer: true,
      token: 'ann',
      reconnect: { minDelayMs: 5, maxDelayMs: 50, connectWithinMs: 100_000 },
    });
    const { id } = session;
    const answers: string[] = [];
    const own = session;
    void (async () => {
      for await (const { text } of own) answers.push(text);
    })().catch(() => {});
    await session.send('one');
    await expect.poll(() => answers).toEqual(['1: one']);
    const texts: string[] = [];
    const reading = (async () => {
      const metadata = { parts: PARTS, again: true, keep: 'kept' };
      for await (const { text } of own.stream('count', { metadata })) texts.push(text);
    })();
    reading.catch(() => {});
    const told = async (parts: number) => {
      while (texts.length < parts) await pause(5);
    };

    // A file is in use for as long as its server lives.
    const inUse = await copy(`sqlite:${file}`, redis.url);
    expect([inUse.code, inUse.stderr]).toEqual([1, expect.stringContaining('another process uses the file')]);
    await told(5);
    await node.process.kill();
    const toRedis = await copy(`sqlite:${file}`, redis.url);
    expect([toRedis.code, toRedis.stderr]).toEqual([0, '']);
    expect(toRedis.stdout).toMatch(/^copied 1 session and 1 reply with \d+ parts? \([\d,]+ bytes\)\n$/);
    // FROM is as it was, and TO is not empty any more.
    const twice = await copy(`sqlite:${file}`, redis.url);
    expect([twice.code, twice.stdout]).toEqual([1, '']);
    expect(twice.stderr.replaceAll(/\s+/g, ' ')).toMatch(
      /TO: it is not empty: there is a .*redis-cli -h 127.0.0.1 -p \d+ -n 0 --scan/,
    );

    const before = texts.length;
    node = await startDurableNode({ url: redis.url });
    await told(before + 5);
    const alive = await copy(redis.url, postgres.url);
    expect([alive.code, alive.stderr]).toEqual([
      1,
      expect.stringContaining('FROM: a node uses it; stop its servers'),
    ]);
    await session.send('two');
    await expect.poll(() => answers).toEqual(['1: one', '2: two']);
    await node.process.call('close');
    await node.process.kill();
    const toPostgres = await copy(redis.url, postgres.url);
    expect([toPostgres.code, toPostgres.stderr]).toEqual([0, '']);

    node = await startDurableNode({ url: postgres.url });
    await session.send('three');
    await expect.poll(() => answers).toEqual(['1: one', '2: two', '3: three']);
    await node.process.call('close');
    await node.process.kill();
    const toFile = await copy(postgres.url, `sqlite:${last}`);
    expect([toFile.code, toFile.stderr]).toEqual([0, '']);
    node = await startDurableNode({ url: last });
    await reading;
    expect(texts.map((text) => Number.parseInt(text, 10))).toEqual(
      Array.from({ length: PARTS }, (_, i) => i),
    );
    await session.send('four');
    await expect.poll(() => answers).toEqual(['1: one', '2: two', '3: three', '4: four']);
    const kept: string[] = [];
    for await (const { text } of session.follow('kept')) kept.push(text);
    expect(kept).toEqual(texts);
    expect(session.id).toBe(id);
  },
);

it('creates no file to copy from', async () => {
  const { code, stderr } = await run([
    'engine',
    'copy',
    'sqlite:/tmp/no-such-parlance.db',
    'sqlite:/tmp/other-parlance.db',
  ]);
  expect([code, stderr]).toEqual([2, expect.stringContaining('FROM: there is no file')]);
  expect(existsSync('/tmp/no-such-parlance.db')).toBe(false);
});
