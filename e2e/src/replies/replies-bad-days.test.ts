import { setTimeout as pause } from 'node:timers/promises';
import type { FollowedReply, ProtocolError } from '@parlance/client';
import { cluster, type Logger, type Server } from '@parlance/server';
import { redis } from '@parlance/server/redis';
import { afterEach, describe, expect, it } from 'vitest';
import {
  type RedisServer,
  redisMissing,
  startRedis,
} from '../../../packages/server/src/engine/testing/redis-server.js';
import { createHostileProxy } from '../chaos/hostile-proxy.js';
import { createPeers } from '../kit/peers.js';

/** Kept replies in a Redis that is slow, gone, full, empty or behind. */

const PARTS = 1_000;
const PAUSE_MS = 5;
const part = (i: number) => `part ${i} `;
const wholeOf = (count = PARTS) => Array.from({ length: count }, (_, i) => part(i));
const SECRET = 'a secret of the cluster in tests';

let peers = createPeers();
afterEach(async () => {
  await peers[Symbol.asyncDispose]();
  peers = createPeers();
});

interface TestNode {
  readonly server: Server;
  readonly url: string;
  readonly events: string[];
}

async function node(url: string): Promise<TestNode> {
  const events: string[] = [];
  const log = (fields: Readonly<Record<string, unknown>>) => events.push(String(fields['event']));
  const logger: Logger = { debug: log, info: log, warn: log, error: log };
  const { server, url: own } = await peers.serve({
    engine: redis({ url }),
    features: [cluster({ secret: SECRET })],
    logger,
    authenticate: ({ token }) => (token === undefined ? null : { principal: token }),
    async *onRequest({ text }, { keep }) {
      keep({ name: text });
      for (let i = 0; i < PARTS; i++) {
        yield part(i);
        await pause(PAUSE_MS);
      }
    },
  });
  return { server, url: own, events };
}

const count = (events: readonly string[], event: string) => events.filter((each) => each === event).length;

interface Reading {
  readonly texts: readonly string[];
  readonly error: ProtocolError | undefined;
}

async function readAll(reply: FollowedReply, texts: string[] = []): Promise<Reading> {
  try {
    for await (const { text } of reply) texts.push(text);
    return { texts, error: undefined };
  } catch (error) {
    return { texts, error: error as ProtocolError };
  }
}

/** A reply that is being read by its requester, and followed at another node. */
async function start(url: string) {
  const [a, b] = [await node(url), await node(url)];
  const asking = await peers.dial(a.url, { token: 'ada' });
  const told: string[] = [];
  const reply = asking.stream('chat');
  const requester = (async () => {
    for await (const { text } of reply) told.push(text);
  })();
  requester.catch(() => {});
  const session = await peers.dial(b.url, { token: 'ada' });
  await expect.poll(() => told.length).toBeGreaterThan(20);
  const seen: string[] = [];
  const follower = readAll(session.follow('chat'), seen);
  await expect.poll(() => seen.length).toBeGreaterThan(20);
  return { a, b, told, requester, session, id: reply.keptId as string, seen, follower };
}
type Started = Awaited<ReturnType<typeof start>>;

/** The requester got everything, and so do those who follow. */
async function expectWhole({ told, requester, follower, session, id, a, b }: Started): Promise<void> {
  await requester;
  expect(told).toEqual(wholeOf());
  expect(await follower).toEqual({ texts: wholeOf(), error: undefined });
  expect(await readAll(session.follow(id))).toEqual({ texts: wholeOf(), error: undefined });
  expect(count([...a.events, ...b.events], 'reply.full')).toBe(0);
}

/** The requester got everything; those who follow got the beginning and then an error. */
async function expectLost(started: Started, code: string): Promise<void> {
  const { told, requester, follower, a } = started;
  await requester;
  expect(told).toEqual(wholeOf());
  const { texts, error } = await follower;
  expect(error?.code).toBe(code);
  expect(texts).toEqual(wholeOf(texts.length));
  expect(texts.length).toBeLessThan(PARTS);
  expect(count(a.events, 'reply.full')).toBe(1);
}

describe.skipIf(redisMissing !== undefined)(redisMissing ?? 'kept replies in a Redis', () => {
  it('that is slow are followed later, and all there', async () => {
    await using server = await startRedis();
    await using proxy = await createHostileProxy(Number(new URL(server.url).port));
    const started = await start(`redis://127.0.0.1:${proxy.port}`);
    for (const connection of proxy.connections) connection.delay(150);
    await expectWhole(started);
  });

  it('that is killed and comes back with its data continue', async () => {
    await using server = await startRedis('--appendonly', 'yes', '--appendfsync', 'everysec');
    const started = await start(server.url);
    await server.kill();
    await pause(700);
    await server.restart();
    await expectWhole(started);
    expect(count(started.a.events, 'replies.stalled')).toBe(1);
    expect(count(started.a.events, 'replies.back')).toBe(1);
  });

  it('that is paused for less than the bound continue', async () => {
    await using server = await startRedis();
    const started = await start(server.url);
    server.pause();
    await pause(2_500);
    server.go();
    await expectWhole(started);
  });

  it('that is paused beyond the bound end there, and their requesters get the rest', async () => {
    await using server = await startRedis();
    const started = await start(server.url);
    server.pause();
    await expect.poll(() => started.a.events).toContain('reply.full');
    server.go();
    await expectLost(started, 'timeout');
    expect(count(started.a.events, 'replies.stalled')).toBe(1);
    expect(await readAll(started.session.follow(started.id))).toMatchObject({ error: { code: 'timeout' } });
  });

  it('that is full end there, and later ones are kept again', async () => {
    await using server = await startRedis();
    const started = await start(server.url);
    await server.client.config('SET', 'maxmemory', '1');
    await expect.poll(() => started.a.events).toContain('reply.full');
    await server.client.config('SET', 'maxmemory', '0');
    await expectLost(started, 'timeout');
    const again = await peers.dial(started.a.url, { token: 'bob' });
    const reply = again.stream('again');
    for await (const { text } of reply) if (text === part(9)) break;
    expect((await again.replies()).map(({ id }) => id)).toEqual([reply.keptId]);
  });

  it('that is emptied are gone, which followers are told', async () => {
    await using server = await startRedis();
    const started = await start(server.url);
    await server.client.flushall();
    await expectLost(started, 'interrupted');
    const { session, id } = started;
    expect(await readAll(session.follow(id))).toMatchObject({ error: { code: 'unknown_reply' } });
    expect(await session.replies()).toEqual([]);
  });

  it('that fails over to a replica without the last parts end there', async () => {
    await using server = await startRedis();
    const restore = async () => await restoreAll(server, saved);
    const started = await start(server.url);
    const saved = await saveAll(server);
    await pause(200);
    await restore();
    await expectLost(started, 'interrupted');
    const { texts, error } = await readAll(started.session.follow(started.id));
    expect(error?.code).toBe('interrupted');
    expect(texts).toEqual(wholeOf(texts.length));
    expect(texts.length).toBeGreaterThan(0);
  });
});

type Saved = readonly (readonly [key: string, value: Buffer])[];

/** The data of a replica that gets no more updates. */
async function saveAll({ client }: RedisServer): Promise<Saved> {
  const keys = await client.keys('parlance:{o:*');
  return await Promise.all(keys.map(async (key) => [key, await client.dumpBuffer(key)] as const));
}

async function restoreAll({ client }: RedisServer, saved: Saved): Promise<void> {
  const restoring = client.multi();
  for (const [key, value] of saved) restoring.restore(key, 60_000, value, 'REPLACE');
  await restoring.exec();
}
