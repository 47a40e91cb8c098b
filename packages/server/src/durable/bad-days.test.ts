import { readFile } from 'node:fs/promises';
import type { Logger } from '@parlance/protocol';
import { systemClock } from '@parlance/protocol/internal';
import { Redis } from 'ioredis';
import { afterEach, describe, expect, it } from 'vitest';
import type { EngineConnection } from '../engine/engine.js';
import { memoryCluster } from '../engine/memory.js';
import { redis } from '../engine/redis.js';
import { Seal } from '../engine/seal/keys.js';
import { RecordSeal } from '../engine/seal/record-seal.js';
import { type RedisServer, redisMissing, startRedis } from '../engine/testing/redis-server.js';
import { Capacity } from './capacity.js';
import { checkDurability } from './check-durability.js';
import { CommitRecorder, type CommitRecorderOptions } from './commit-recorder.js';
import { unpack } from './packed.js';
import { FakeSession } from './testing/fake-session.js';

/** Commits of a session that go to a Redis which is killed, paused, full, emptied, or behind. */

const ID = 'sess_one';
const TTL_MS = 60_000;
const SEAL = new Seal(new Uint8Array(32).fill(1));
const AOF = ['--appendonly', 'yes', '--appendfsync', 'everysec'];

const open: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

async function start(...options: string[]): Promise<RedisServer> {
  const server = await startRedis(...options);
  open.push(() => server[Symbol.asyncDispose]());
  return server;
}
const portOf = ({ url }: RedisServer) => new URL(url).port;

/** A primary and its replica, and a client that goes to the one that a test chooses. */
async function pair() {
  const primary = await start('--repl-diskless-sync-delay', '0');
  const replica = await start('--replicaof', '127.0.0.1', portOf(primary));
  await expect.poll(() => replica.client.info('replication')).toContain('master_link_status:up');
  const clients = [primary, replica].map((server) => {
    const client = new Redis(server.url, { maxRetriesPerRequest: 0, enableOfflineQueue: false });
    client.on('error', () => {});
    open.push(() => client.disconnect());
    return client;
  }) as [Redis, Redis];
  await expect.poll(() => clients.every(({ status }) => status === 'ready')).toBe(true);
  let [at] = clients;
  const client = {
    call: (name: string, ...rest: string[]) => at.call(name, ...rest),
    callBuffer: (name: string, ...rest: (string | Buffer)[]) => at.callBuffer(name, ...rest),
  };
  return {
    primary,
    replica,
    link: linkTo({ client }),
    /** The primary is gone, and the replica takes its place. */
    async failOver() {
      await primary.kill();
      replica.go();
      await replica.client.replicaof('NO', 'ONE');
      [, at] = clients;
    },
  };
}

function linkTo(options: Parameters<typeof redis>[0]): EngineConnection {
  const link = redis(options).connect();
  open.push(() => link.close());
  return link;
}

function record(link: EngineConnection, rest: Partial<CommitRecorderOptions> = {}) {
  const durable = new FakeSession();
  const events: string[] = [];
  const note = (fields: Readonly<Record<string, unknown>>) => void events.push(String(fields['event']));
  const logger: Logger = { debug: note, info: note, warn: note, error: note };
  const recorder = new CommitRecorder({
    ...{ sessionId: ID, principal: 'ada', owner: 'aaaaaa', epoch: 0, ttlMs: TTL_MS, stallMs: 300 },
    ...{ link, durable, clock: systemClock, logger },
    onCommitted: () => {},
    onRefused: (why) => void events.push(why),
    ...rest,
  });
  open.push(() => recorder.close());
  durable.begin = Buffer.from('begin');
  const session = {
    durable,
    events,
    /** Something happens, in a commit of its own. */
    async handle(times = 1) {
      for (let i = 0; i < times; i++) {
        durable.handle();
        await new Promise((resolve) => setImmediate(resolve));
      }
    },
    /** Everything that has happened is recorded. */
    async recorded() {
      await expect.poll(() => durable.isIdle && durable.recorded > 0).toBe(true);
    },
  };
  return {
    ...session,
    /** Something is recorded. A busy machine may have been slow until then. */
    async begin(times = 1) {
      await session.handle(times);
      await session.recorded();
      events.length = 0;
    },
  };
}

/** The fields that another process finds when it claims the session, which is its own from then on. */
async function found(link: EngineConnection, seal?: Seal): Promise<Record<string, string>> {
  const claimed = await link.claimSession(ID, { from: 'aaaaaa', epoch: 0, to: 'bbbbbb', ttlMs: TTL_MS });
  const fields = claimed?.fields ?? new Map<string, Uint8Array>();
  const opened = seal === undefined ? fields : RecordSeal.open(seal, ID, 1, fields).fields;
  const textOf = (name: string, value: Uint8Array) =>
    Buffer.from(name === 'begin' ? unpack(value) : value).toString();
  return Object.fromEntries([...opened].map(([name, value]) => [name, textOf(name, value)]));
}

/** On a busy machine a restart takes so long that the record falls behind as well. */
const ofEngine = (events: readonly string[]) => events.filter((event) => event.startsWith('engine.'));
const whole = (handled: number) => ({ begin: 'begin', principal: 'ada', handled: String(handled) });
const sealed = () => RecordSeal.begin(SEAL, ID, 0);

describe.skipIf(redisMissing !== undefined)(redisMissing ?? 'the commits of a session in a Redis', () => {
  it('that is killed and comes back with its data are all recorded', async () => {
    const server = await start(...AOF);
    const link = linkTo({ url: server.url });
    const session = record(link);
    await session.begin(3);
    await server.kill();
    await session.handle(20);
    const { recorded } = session.durable;
    await expect.poll(() => session.events).toEqual(['engine.stalled']);
    expect(session.durable.recorded).toBe(recorded);
    await server.restart();
    await session.recorded();
    expect(ofEngine(session.events)).toEqual(['engine.stalled', 'engine.answered']);
    expect(await found(link)).toEqual(whole(23));
  });

  it('that is killed and comes back without its data are recorded again', async () => {
    const server = await start();
    const link = linkTo({ url: server.url });
    const session = record(link);
    await session.begin(3);
    await server.kill();
    await server.restart();
    await session.handle();
    await session.recorded();
    expect(session.events).toContain('record.behind');
    expect(await found(link)).toEqual(whole(4));
  });

  it('that is paused wait for it', async () => {
    const server = await start();
    const link = linkTo({ url: server.url });
    const session = record(link);
    await session.begin();
    server.pause();
    await session.handle(5);
    await expect.poll(() => session.events).toEqual(['engine.stalled']);
    expect(session.durable.recorded).toBe(1);
    server.go();
    await session.recorded();
    expect(await found(link)).toEqual(whole(6));
  });

  it('that is paused continue without it if that was chosen, and are recorded afterwards', async () => {
    const server = await start();
    const link = linkTo({ url: server.url });
    const session = record(link, { degrades: true, seal: sealed() });
    await session.begin();
    server.pause();
    await session.handle();
    await expect.poll(() => session.events).toEqual(['engine.stalled', 'session.degraded']);
    await session.handle(5);
    expect(session.durable.recorded).toBe(7);
    server.go();
    await expect.poll(() => session.events).toContain('engine.answered');
    expect(await found(link, SEAL)).toEqual(whole(7));
  });

  it('that is full wait for room', async () => {
    const server = await start();
    const link = linkTo({ url: server.url });
    const session = record(link);
    await session.begin();
    await server.client.config('SET', 'maxmemory', '1');
    await session.handle(5);
    await expect.poll(() => session.events).toEqual(['engine.stalled']);
    expect(session.durable.recorded).toBe(1);
    await server.client.config('SET', 'maxmemory', '0');
    await session.recorded();
    expect(ofEngine(session.events)).toEqual(['engine.stalled', 'engine.answered']);
    expect(await found(link)).toEqual(whole(6));
  });

  it('that is emptied are recorded again, sealed ones as well', async () => {
    const server = await start();
    const link = linkTo({ url: server.url });
    const session = record(link, { seal: sealed() });
    await session.handle(3);
    await session.recorded();
    await server.client.flushall();
    await session.handle();
    await session.recorded();
    expect(session.events).toEqual(['record.behind']);
    expect(await found(link, SEAL)).toEqual(whole(4));
  });

  it('that fails over to a replica without the last commits are recorded again', async () => {
    const { link, replica, failOver } = await pair();
    const session = record(link, { seal: sealed() });
    await session.handle();
    await session.recorded();
    await expect.poll(() => replica.client.exists(`parlance:{${ID}}`)).toBe(1);
    // It is cut off.
    await replica.client.replicaof('NO', 'ONE');
    await session.handle(3);
    await session.recorded();
    await failOver();
    await session.handle();
    await session.recorded();
    expect(session.events).toContain('record.behind');
    expect(await found(link, SEAL)).toEqual(whole(5));
  });

  it('are recorded when a replica has them, if that was chosen, and survive the failover', async () => {
    const { link, replica, failOver } = await pair();
    const session = record(link, { isReplicated: true });
    await session.begin();
    replica.pause();
    await session.handle(3);
    await expect.poll(() => session.events).toEqual(['engine.stalled']);
    expect(session.durable.recorded).toBe(1);
    replica.go();
    await session.recorded();
    replica.pause();
    await failOver();
    expect(await found(link)).toEqual(whole(4));
  });
});

describe.skipIf(redisMissing !== undefined)(redisMissing ?? 'an engine for durable sessions', () => {
  it('needs the commands that the guide names, and no others', async () => {
    const server = await start();
    const guide = await readFile(new URL('../../../../docs/operate/redis.md', import.meta.url), 'utf8');
    const lines = [/^- Every node: [^-]*/m, /^- `durable\(\)`: .*/m];
    const text = lines.map((line) => line.exec(guide)?.[0] ?? '').join();
    const commands = [...text.matchAll(/`([A-Z]+)`/g)].map(([, name = '']) => `+${name}`);
    await server.client.call('ACL', 'SETUSER', 'app', 'on', '>password', '~parlance:*', ...commands);
    const link = linkTo({ url: server.url.replace('//', '//app:password@') });
    const options = {
      link,
      sessionId: ID,
      ttlMs: TTL_MS,
      maxSessionBytes: 1 << 20,
      maxPrincipalBytes: 1 << 20,
    };
    const capacity = new Capacity({ ...options, account: 'ada' });
    const session = record(link, { capacity });
    await session.handle(2);
    await session.recorded();
    await server.client.flushall();
    await session.handle();
    await session.recorded();
    expect(await link.findSession(ID)).toEqual({ owner: 'aaaaaa', epoch: 0 });
    expect(await found(link)).toEqual(whole(3));
    await link.releaseSession(ID, 'bbbbbb', 1);
    await capacity.release();
    expect(session.events).toEqual(['record.behind']);
  });

  it('must not forget when it ends, unless that is allowed', async () => {
    const [kept, volatile] = [await start(...AOF), await start()];
    await checkDurability(linkTo({ url: kept.url }), { isVolatile: false });
    await checkDurability(linkTo({ url: volatile.url }), { isVolatile: true });
    await expect(checkDurability(linkTo({ url: volatile.url }), { isVolatile: false })).rejects.toMatchObject(
      {
        code: 'unsupported',
        message: expect.stringContaining('appendonly'),
      },
    );
    await volatile.kill();
    await expect(checkDurability(linkTo({ url: volatile.url }), { isVolatile: false })).rejects.toMatchObject(
      {
        code: 'connection_failed',
      },
    );
  });

  it('may be within the process, as it ends with its nodes', async () => {
    await checkDurability(memoryCluster().connect(), { isVolatile: false });
  });
});
