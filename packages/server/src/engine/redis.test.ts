import { afterEach, describe, expect, it } from 'vitest';
import type { EngineConnection } from './engine.js';
import { redis } from './redis.js';
import { patient } from './suite/world.js';
import { type RedisServer, redisMissing, startRedis } from './testing/redis-server.js';

/** Redis, beyond the tests of every engine. */

const LONG_MS = 60_000;

const withRedis = describe.skipIf(redisMissing !== undefined);
withRedis(redisMissing ?? 'Redis', () => {
  const open: (AsyncDisposable | EngineConnection)[] = [];
  afterEach(async () => {
    for (const each of open.splice(0).reverse())
      await ('close' in each ? each.close() : each[Symbol.asyncDispose]());
  });
  const start = async (...options: string[]): Promise<RedisServer> => {
    const server = await startRedis(...options);
    open.push(server);
    return server;
  };
  /** Its calls are not repeated. */
  const connectOnce = (url: string): EngineConnection => {
    const link = redis({ url }).connect();
    open.push(link);
    return link;
  };
  const connect = (url: string) => patient(connectOnce(url));

  it('is refused if it evicts keys', async () => {
    const { url } = await start('--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru');
    await expect(connect(url).renew('aaaaaa', '', LONG_MS)).rejects.toMatchObject({
      code: 'unsupported',
      message: expect.stringContaining('maxmemory-policy to noeviction (it is allkeys-lru)'),
    });
  });

  it('is refused if it runs no scripts', async () => {
    const { url } = await start('--rename-command', 'EVAL', '');
    await expect(connect(url).renew('aaaaaa', '', LONG_MS)).rejects.toMatchObject({
      code: 'unsupported',
      message: expect.stringContaining('runs no scripts'),
    });
  });

  it('gets each script again after it has forgotten all of them', async () => {
    const { url, client } = await start();
    const link = connect(url);
    await link.renew('aaaaaa', '', LONG_MS);
    await client.script('FLUSH');
    expect((await link.renew('aaaaaa', '', LONG_MS)).nodes).toHaveLength(1);
    await client.script('FLUSH');
    expect(await link.find('aaaaaa')).toBeDefined();
  });

  it('takes a commit that forgets a reply of 150,000 parts', async () => {
    const link = connect((await start()).url);
    const write = { owner: 'aaaaaa', epoch: 0, number: 1, isFirst: true, ttlMs: LONG_MS, remove: [] };
    const set = new Map([['begin', new Uint8Array(8)]]);
    expect(await link.writeSession('sess_one', { ...write, set })).toBe('written');
    const remove = Array.from({ length: 150_000 }, (_, i) => `p1.${i}`);
    const next = { ...write, number: 2, isFirst: false, set: new Map(), remove };
    expect(await link.writeSession('sess_one', next)).toBe('written');
  });

  it('is asked again after it was gone', async () => {
    const server = await start();
    const link = connect(server.url);
    await link.renew('aaaaaa', '', LONG_MS);
    await server.kill();
    await expect(link.renew('aaaaaa', '', LONG_MS)).rejects.toMatchObject({ code: 'connection_failed' });
    await server.restart();
    const renewed = () => link.renew('aaaaaa', '', LONG_MS).catch(() => undefined);
    await expect.poll(renewed).toMatchObject({ nodes: [{ incarnation: 'aaaaaa' }] });
  });

  it('is not waited for while it hangs, and is sent a bounded number of commands', async () => {
    const server = await start();
    const link = connectOnce(server.url);
    await link.renew('aaaaaa', '', LONG_MS);
    server.pause();
    const failures = await Promise.all(
      Array.from({ length: 9 }, () => link.renew('aaaaaa', '', LONG_MS).catch((error: Error) => error)),
    );
    for (const error of failures.slice(0, 8))
      expect(error).toMatchObject({ code: 'timeout', message: expect.stringContaining('1000 ms') });
    expect(failures[8]).toMatchObject({ message: expect.stringContaining('earlier commands') });
    // Searches do not take the place of renewals, and the reverse.
    expect(await link.find('aaaaaa').catch((error: Error) => error)).toMatchObject({
      message: expect.stringContaining('1000 ms'),
    });
    server.go();
    await expect.poll(() => link.find('aaaaaa').catch(() => undefined)).toBeDefined();
  });

  it('that is not there is reported by its address, and without the password', async () => {
    const link = connect('redis://:secret@127.0.0.1:1');
    const error = await link.renew('aaaaaa', '', LONG_MS).catch((thrown: Error) => thrown);
    expect(error).toMatchObject({
      code: 'connection_failed',
      message: expect.stringContaining('ECONNREFUSED'),
    });
    expect(String(error)).not.toContain('secret');
  });

  it('says so if it has forgotten changes of agents, or all of them', async () => {
    const { url, client } = await start();
    const link = connect(url);
    for (let i = 0; i < 3; i++) await link.table('agents').put('k', { holder: 's', record: String(i) });
    await client.xdel('parlance:{agents}:log', '1-0');
    expect(await link.table('agents').changes(0)).toBeUndefined();
    expect(await link.table('agents').changes(1)).toHaveLength(2);
    await client.flushall();
    expect(await link.table('agents').changes(3)).toBeUndefined();
    expect(await link.table('agents').read()).toEqual({ entries: new Map(), position: 0 });
    await link.table('agents').put('k', { holder: 's', record: '' }, null);
    expect(await link.table('agents').changes(0)).toHaveLength(1);
  });

  it('says so if it has forgotten the nodes', async () => {
    const { url, client } = await start();
    const link = connect(url);
    expect(await link.find('bbbbbb')).toBeUndefined();
    expect(await link.renew('aaaaaa', '', LONG_MS)).toMatchObject({ hasForgotten: false });
    expect(await link.renew('aaaaaa', '', LONG_MS)).toMatchObject({ hasForgotten: false });
    await client.flushall();
    // Another node has announced itself first.
    await connect(url).renew('cccccc', '', LONG_MS);
    await expect(link.find('bbbbbb')).rejects.toMatchObject({
      code: 'connection_failed',
      message: 'Redis has forgotten the nodes',
    });
    expect(await link.renew('aaaaaa', '', LONG_MS)).toMatchObject({ hasForgotten: true });
    expect(await link.renew('aaaaaa', '', LONG_MS)).toMatchObject({ hasForgotten: false });
    expect(await link.find('bbbbbb')).toBeUndefined();
    await link.withdraw('aaaaaa');
    expect(await link.renew('aaaaaa', '', LONG_MS)).toMatchObject({ hasForgotten: false });
  });

  it('sweeps entries that are malformed', async () => {
    const { url, client } = await start();
    await client.hset('parlance:nodes', { broken: 'no lease', empty: '', 'x:y': ':', old: '1:record' });
    const { nodes } = await connect(url).renew('aaaaaa', '', LONG_MS);
    expect(nodes?.map(({ incarnation }) => incarnation)).toEqual(['aaaaaa']);
    expect((await client.hkeys('parlance:nodes')).sort()).toEqual(['', 'aaaaaa']);
  });
});

describe('the engine of a client that says', () => {
  const client = (info: string) => ({
    call: async (name: string): Promise<unknown> => {
      if (name === 'INFO') return info;
      return [];
    },
  });
  const renew = (info: string) =>
    redis({ client: client(info) })
      .connect()
      .renew('aaaaaa', '', LONG_MS);
  const INFO = (version: string) => `redis_version:${version}\r\nmaxmemory_policy:noeviction\r\n`;

  it.each(['6.2.0', '6.10.1', '7.0.15', '10.0.0'])('%s is new enough', async (version) => {
    await expect(renew(INFO(version))).resolves.toMatchObject({ nodes: [] });
  });

  it.each(['6.1.9', '5.0.14', '2.8.0', 'unknown'])('%s is refused', async (version) => {
    await expect(renew(INFO(version))).rejects.toMatchObject({
      code: 'unsupported',
      message: expect.stringContaining('needs Redis 6.2 or newer'),
    });
  });

  it('nothing of its policy is refused', async () => {
    await expect(renew('redis_version:7.0.0\r\n')).rejects.toMatchObject({ code: 'unsupported' });
  });
});

describe('redis()', () => {
  it.each([
    [{}, 'either url or client'],
    [{ url: 'redis://a', client: { call: async () => 1 } }, 'either url or client'],
    [{ url: 'http://a' }, 'redis://'],
    [{ url: 'redis://a', prefix: '' }, 'prefix'],
    [{ url: 'redis://a', prefix: 'a b' }, 'prefix'],
    [{ url: 'redis://a', prefix: 'x'.repeat(65) }, 'prefix'],
    [{ client: {} as never }, 'neither'],
    [{ url: 'redis://a', prefx: '' } as never, 'prefx'],
  ])('refuses %j', (options, message) => {
    expect(() => redis(options)).toThrow(
      expect.objectContaining({ code: 'invalid_option', message: expect.stringContaining(message) }),
    );
  });

  it('takes a prefix of 64 characters', () => {
    expect(() => redis({ url: 'redis://a', prefix: 'x'.repeat(64) })).not.toThrow();
  });
});
