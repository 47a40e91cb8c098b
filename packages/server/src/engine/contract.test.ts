import { afterEach, describe, expect, it } from 'vitest';
import type { EngineConnection } from './engine.js';
import { redis } from './redis.js';
import { describeEngines } from './testing/engines.js';
import { type RedisServer, redisMissing, startRedis } from './testing/redis-server.js';

/** What every engine does, whichever engine it has. */

const LONG_MS = 60_000;

describeEngines('an engine with', (test) => {
  test('lists a node to itself and to the others, with its record as it was', async ({ connect }) => {
    const [a, b] = [connect(), connect()];
    const record = '{"address":"ws://[::1]:1","proof":"a:b \u00e9\u{1f600}"}';
    const own = await a.renew('aaaaaa', record, LONG_MS);
    expect(own.nodes.map(({ incarnation }) => incarnation)).toEqual(['aaaaaa']);
    const both = await b.renew('bbbbbb', '', LONG_MS);
    expect(new Map(both.nodes.map((node) => [node.incarnation, node.record]))).toEqual(
      new Map([
        ['aaaaaa', record],
        ['bbbbbb', ''],
      ]),
    );
    for (const { leaseMs } of both.nodes) {
      expect(leaseMs).toBeGreaterThan(0);
      expect(leaseMs).toBeLessThanOrEqual(LONG_MS);
    }
  });

  test('tells the time', async ({ connect }) => {
    const { now } = await connect().renew('aaaaaa', '', LONG_MS);
    expect(Math.abs(now - Date.now())).toBeLessThan(60_000);
  });

  test('replaces the record with a renewal', async ({ connect }) => {
    const a = connect();
    await a.renew('aaaaaa', 'old', LONG_MS);
    const { nodes } = await a.renew('aaaaaa', 'new', LONG_MS);
    expect(nodes.map(({ record }) => record)).toEqual(['new']);
  });

  test('finds one node, and none that was never announced', async ({ connect }) => {
    const [a, b] = [connect(), connect()];
    await a.renew('aaaaaa', 'here', LONG_MS);
    expect(await b.find('aaaaaa')).toMatchObject({ incarnation: 'aaaaaa', record: 'here' });
    expect(await b.find('bbbbbb')).toBeUndefined();
    expect(await b.find('')).toBeUndefined();
  });

  test('forgets a node whose lease is over, and one that withdraws', async ({ connect }) => {
    const [a, b] = [connect(), connect()];
    await a.renew('aaaaaa', '', 20);
    await expect.poll(() => b.find('aaaaaa')).toBeUndefined();
    const { nodes } = await b.renew('bbbbbb', '', LONG_MS);
    expect(nodes.map(({ incarnation }) => incarnation)).toEqual(['bbbbbb']);
    await b.withdraw('bbbbbb');
    expect(await a.find('bbbbbb')).toBeUndefined();
    await b.withdraw('bbbbbb');
  });

  test('lets a node back whose lease was over', async ({ connect }) => {
    const [a, b] = [connect(), connect()];
    await a.renew('aaaaaa', '', 20);
    await expect.poll(() => b.find('aaaaaa')).toBeUndefined();
    await a.renew('aaaaaa', 'back', LONG_MS);
    expect(await b.find('aaaaaa')).toMatchObject({ record: 'back' });
  });

  test('lists a hundred nodes that announce themselves at once', async ({ connect }) => {
    const names = Array.from({ length: 100 }, (_, i) => `node${String(i).padStart(2, '0')}`);
    for (let i = 0; i < names.length; i += 4) {
      const four = names.slice(i, i + 4);
      await Promise.all(four.map((node) => connect().renew(node, node, LONG_MS)));
    }
    const { nodes } = await connect().renew('last00', '', LONG_MS);
    expect(nodes.map(({ incarnation }) => incarnation).sort()).toEqual([...names, 'last00'].sort());
  });

  const entry = (holder: string, record = '{"a": "b c \u{1f600}"}') => ({ holder, record });

  test('writes an agent for whom it is expected of, and for no other', async ({ connect }) => {
    const link = connect();
    expect(await link.table('agents').put('k', entry('s1'), null)).toEqual({ isDone: true, position: 1 });
    expect(await link.table('agents').put('k', entry('s2'), null)).toEqual({ isDone: false, position: 1 });
    expect(await link.table('agents').put('k', entry('s2'), 's')).toEqual({ isDone: false, position: 1 });
    expect(await link.table('agents').put('k', undefined, 's2')).toEqual({ isDone: false, position: 1 });
    expect((await link.table('agents').read()).entries).toEqual(new Map([['k', entry('s1')]]));
    expect(await link.table('agents').put('k', entry('s1', ''), 's1')).toEqual({ isDone: true, position: 2 });
    expect(await link.table('agents').put('k', entry('s3'), undefined)).toEqual({
      isDone: true,
      position: 3,
    });
    expect(await link.table('agents').put('k', undefined, 's3')).toEqual({ isDone: true, position: 4 });
    expect(await link.table('agents').read()).toEqual({ entries: new Map(), position: 4 });
  });

  test('changes nothing if an agent is as it is to be', async ({ connect }) => {
    const link = connect();
    for (let twice = 0; twice < 2; twice++) {
      expect(await link.table('agents').put('k', entry('s1'), null)).toEqual({ isDone: true, position: 1 });
      expect(await link.table('agents').put('k', entry('s1'), undefined)).toEqual({
        isDone: true,
        position: 1,
      });
    }
    for (let twice = 0; twice < 2; twice++)
      expect(await link.table('agents').put('k', undefined, 's1')).toEqual({ isDone: true, position: 2 });
    expect(await link.table('agents').read()).toEqual({ entries: new Map(), position: 2 });
  });

  test('tells every node of every change of agents, in order', async ({ connect }) => {
    const [a, b] = [connect(), connect()];
    expect(await b.table('agents').read()).toEqual({ entries: new Map(), position: 0 });
    const waiting = b.table('agents').changes(0);
    await a.table('agents').put('k', entry('s1'), undefined);
    await a.table('agents').put('l', entry('s2'), undefined);
    await b.table('agents').put('k', undefined, 's1');
    expect((await waiting)?.[0]).toEqual({ position: 1, key: 'k', entry: entry('s1') });
    expect(await a.table('agents').changes(0)).toEqual([
      { position: 1, key: 'k', entry: entry('s1') },
      { position: 2, key: 'l', entry: entry('s2') },
      { position: 3, key: 'k', entry: undefined },
    ]);
    expect(await a.table('agents').changes(2)).toEqual([{ position: 3, key: 'k', entry: undefined }]);
    expect(await a.table('agents').changes(3)).toEqual([]);
  });

  test('says so if it has never made the changes that a node knows', async ({ connect }) => {
    await connect().table('agents').put('k', entry('s1'), undefined);
    expect(await connect().table('agents').changes(2)).toBeUndefined();
  });

  test('keeps the first key of addresses that a node suggests', async ({ connect }) => {
    const suggestions = ['one', 'two', 'three'];
    const keys = await Promise.all(
      suggestions.map((candidate) => connect().table('agents').shareKey(candidate)),
    );
    expect(new Set(keys).size).toBe(1);
    expect(suggestions).toContain(keys[0]);
    expect(await connect().table('agents').shareKey('four')).toBe(keys[0]);
  });

  test('lets one of two nodes have a session that moves, and says which', async ({ connect }) => {
    const [a, b] = [connect(), connect()];
    expect(await a.findSession('sess_1')).toBeUndefined();
    const from = { from: 'aaaaaa', epoch: 0, ttlMs: LONG_MS };
    const both = await Promise.all([
      a.moveSession('sess_1', { ...from, to: 'bbbbbb' }),
      b.moveSession('sess_1', { ...from, to: 'cccccc' }),
    ]);
    expect(both[0]).toEqual(both[1]);
    const [{ owner, epoch }] = both;
    expect(epoch).toBe(1);
    expect(await b.findSession('sess_1')).toEqual({ owner, epoch });
    expect(await b.findSession('sess_2')).toBeUndefined();
    const onward = await a.moveSession('sess_1', { from: owner, epoch, to: 'dddddd', ttlMs: LONG_MS });
    expect(onward).toEqual({ owner: 'dddddd', epoch: 2 });
    // Of a node that has had it, and of its owner with an old number.
    expect(await a.moveSession('sess_1', { from: owner, epoch, to: owner, ttlMs: LONG_MS })).toEqual(onward);
    expect(await a.moveSession('sess_1', { ...from, from: 'dddddd', to: 'eeeeee' })).toEqual(onward);
  });

  test('forgets where a session is unless its node keeps it', async ({ connect }) => {
    const link = connect();
    const move = { from: 'aaaaaa', epoch: 4, to: 'bbbbbb', ttlMs: 400 };
    for (const id of ['sess_1', 'sess_2', 'sess_3']) await link.moveSession(id, move);
    const kept = new Map([
      ['sess_1', 5],
      ['sess_2', 4],
      ['sess_4', 7],
    ]);
    expect(await link.keepSessions('bbbbbb', kept, LONG_MS)).toEqual(['sess_2']);
    await expect.poll(() => link.findSession('sess_3')).toBeUndefined();
    expect(await link.findSession('sess_1')).toEqual({ owner: 'bbbbbb', epoch: 5 });
    // It was gone, and is written again.
    expect(await link.findSession('sess_4')).toEqual({ owner: 'bbbbbb', epoch: 7 });
  });

  test('keeps hundreds of records at once', async ({ connect }) => {
    const link = connect();
    const epochs = new Map(Array.from({ length: 300 }, (_, i) => [`sess_${i}`, i + 1] as const));
    expect(await link.keepSessions('aaaaaa', epochs, LONG_MS)).toEqual([]);
    expect(await link.findSession('sess_299')).toEqual({ owner: 'aaaaaa', epoch: 300 });
  });

  test('lets one of many nodes have an agent', async ({ connect }) => {
    const puts = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        connect()
          .table('agents')
          .put('k', entry(`s${i}`), null),
      ),
    );
    expect(puts.filter(({ isDone }) => isDone)).toHaveLength(1);
  });

  test('keeps two clusters apart', async ({ connect, connectElsewhere }) => {
    await connect().renew('aaaaaa', '', LONG_MS);
    expect(await connectElsewhere().find('aaaaaa')).toBeUndefined();
  });
});

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
  const connect = (url: string): EngineConnection => {
    const link = redis({ url }).connect();
    open.push(link);
    return link;
  };

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
    const link = connect(server.url);
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
    for (let i = 0; i < 3; i++)
      await link.table('agents').put('k', { holder: 's', record: String(i) }, undefined);
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
    expect(nodes.map(({ incarnation }) => incarnation)).toEqual(['aaaaaa']);
    expect(await client.hkeys('parlance:nodes')).toEqual(['aaaaaa']);
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
