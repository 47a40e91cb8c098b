import { setTimeout as pause } from 'node:timers/promises';
import { withResolvers } from '@parlance/protocol/internal';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, it, type MockInstance, vi } from 'vitest';
import type { EngineConnection, SessionWrite } from '../engine.js';
import { UNKNOWN } from '../logs/logs.js';
import { type PostgresOptions, postgres } from '../postgres.js';
import { repliesOf } from '../testing/engines.js';
import { type PostgresServer, postgresMissing, startPostgres } from '../testing/postgres-server.js';
import { createSilentProxy } from '../testing/silent-proxy.js';
import { PostgresPool } from './pool.js';

/** A Postgres that is silent, restarted, killed, full or replaced. */

const TTL_MS = 60_000;
const BOUNDS = { maxReplies: 10, maxReplyBytes: 1 << 20, maxOwnerBytes: 1 << 20 };
const HEAD = {
  ...{ id: 'reply_one', owner: 'principal:ada', principal: 'ada', name: undefined, share: undefined },
  ...{ encoding: undefined, ttlMs: TTL_MS, startedAt: 1_700_000_000_000 },
};
const codeOf = (call: Promise<unknown>) =>
  call.then(
    () => 'answered',
    (error: { readonly code: string }) => error.code,
  );
const writeOf = (number: number, rest: Partial<SessionWrite> = {}): SessionWrite => ({
  ...{ owner: 'aaaaaa', epoch: 0, number, isFirst: number === 1, after: number - 1, ttlMs: TTL_MS },
  ...{ set: new Map([[`m${number}`, Buffer.from(`${number}`)]]), remove: [], ...rest },
});

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});
function opened<Each extends { close(): Promise<void> }>(each: Each): Each {
  open.push(each);
  return each;
}
const at = (url: string, options?: PostgresOptions): EngineConnection =>
  opened(postgres(url, options).connect());
const urlAt = (port: number) => `postgres://postgres@127.0.0.1:${port}/postgres`;
/** The time that calls need together, in milliseconds. */
async function timeOf(calls: readonly Promise<unknown>[]): Promise<number> {
  const began = performance.now();
  await Promise.allSettled(calls);
  return performance.now() - began;
}

describe.skipIf(postgresMissing !== undefined)(postgresMissing ?? 'a connection to Postgres', () => {
  let server: PostgresServer;
  let schemas = 0;
  const fresh = () => ({ schema: `faults${schemas++}` });
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server?.[Symbol.asyncDispose]());

  it('that dies without a word costs one deadline, however many were open', async () => {
    await using proxy = await createSilentProxy(server.port);
    const link = at(urlAt(proxy.port), fresh());
    const find = (id: number) => link.findSession(`sess_${id}`);
    await find(0);
    await Promise.all(Array.from({ length: 50 }, (_, i) => find(i)));
    proxy.silence('all');
    expect(await codeOf(find(0))).toBe('timeout');
    const took = await timeOf(Array.from({ length: 50 }, (_, i) => find(i)));
    expect(took).toBeLessThan(900);
    expect(await codeOf(find(0))).toBe('answered');
  });

  it('that is accepted and never spoken on is given up, until one works', async () => {
    await using proxy = await createSilentProxy(server.port);
    proxy.arrivals = 'silent';
    const link = at(urlAt(proxy.port), fresh());
    expect(await codeOf(link.renew('aaaaaa', '', TTL_MS))).toBe('timeout');
    proxy.arrivals = 'work';
    await expect.poll(() => codeOf(link.renew('aaaaaa', '', TTL_MS))).toBe('answered');
  });

  it('that is prepared after nobody waits for it any more is still given to the next call', async () => {
    const pool = opened(new PostgresPool({ urls: [server.url], schema: 'public', maxConnections: 1 }));
    const first = await pool.take();
    const queued = codeOf(pool.take());
    const gate = withResolvers<void>();
    const query = pg.Client.prototype.query as (...values: unknown[]) => Promise<unknown>;
    const spy = vi.spyOn(pg.Client.prototype, 'query') as unknown as MockInstance<typeof query>;
    spy.mockImplementation(async function (this: pg.Client, ...values) {
      if (`${values[0]}`.includes('pg_is_in_recovery')) await gate.promise;
      return await Reflect.apply(query, this, values);
    });
    try {
      await pause(1_500);
      // The call in the queue gets a new one in its place.
      pool.give(first, new Error('broken'));
      expect(await queued).toBe('timeout');
      // The library gives the call in its queue up after two seconds.
      await pause(1_000);
      gate.resolve();
      const next = await pool.take();
      expect(await next.query('SHOW search_path')).toMatchObject({ rows: [{ search_path: 'public' }] });
      pool.give(next);
    } finally {
      spy.mockRestore();
    }
  });

  it('that dies before its settings are answered is given up, and another one takes its place', async () => {
    await using proxy = await createSilentProxy(server.port);
    const options = { ...fresh(), maxConnections: 1 };
    await at(server.url, options).findSession('sess_one');
    const link = at(urlAt(proxy.port), options);
    proxy.delayMs = 300;
    const first = codeOf(link.findSession('sess_one'));
    await expect.poll(() => proxy.open).toBe(1);
    // The server's answers are still under way. The one that it has taken the settings will be lost.
    await pause(100);
    proxy.silence('answers');
    expect(await first).toBe('timeout');
    proxy.delayMs = 0;
    await expect.poll(() => codeOf(link.findSession('sess_one'))).toBe('answered');
  });

  it('that is being opened does not hold up closing', async () => {
    await using proxy = await createSilentProxy(server.port);
    proxy.arrivals = 'silent';
    const link = postgres(urlAt(proxy.port)).connect();
    const code = codeOf(link.renew('aaaaaa', '', TTL_MS));
    await expect.poll(() => proxy.open).toBe(1);
    expect(await timeOf([link.close()])).toBeLessThan(1_500);
    expect(await code).toBe('connection_failed');
    await expect.poll(() => proxy.open).toBe(0);
    expect(await codeOf(link.renew('aaaaaa', '', TTL_MS))).toBe('connection_failed');
  });

  it('hears again what is new after it was lost', async () => {
    await using proxy = await createSilentProxy(server.port);
    const options = fresh();
    const writer = opened(repliesOf(postgres(server.url, options)));
    const reader = opened(repliesOf(postgres(urlAt(proxy.port), options)));
    await writer.open(HEAD, BOUNDS, TTL_MS);
    let unknown = 0;
    let parts = 0;
    reader.watch(HEAD.id, (news) => {
      if (news === UNKNOWN) unknown++;
      else parts += news.records.length;
    });
    await expect.poll(() => unknown).toBeGreaterThan(0);
    let written = 0;
    const append = async () => {
      const records = [Uint8Array.of(0, 1)];
      const batch = {
        id: HEAD.id,
        owner: HEAD.owner,
        from: written,
        offset: 3 * written,
        records,
        metadata: [],
      };
      expect(await writer.append(batch, BOUNDS, TTL_MS)).toBe('done');
      written++;
    };
    await append();
    await expect.poll(() => parts).toBe(1);
    for (const fault of ['cut', 'silence'] as const) {
      const before = unknown;
      if (fault === 'cut') proxy.cut();
      else proxy.silence('all');
      await expect.poll(() => unknown).toBeGreaterThan(before);
      // Calls that were under way fail, or do not.
      await pause(500);
      const heard = unknown + parts;
      await append();
      await expect.poll(() => unknown + parts).toBeGreaterThan(heard);
    }
  });

  it('is not waited for by others while one holds a lock, and ends its transaction if it stands still', async () => {
    const options = { ...fresh(), maxConnections: 4 };
    const link = at(server.url, options);
    for (const number of [1, 2]) await link.writeSession('sess_one', writeOf(number));
    const holder = new pg.Client(server.url);
    await holder.connect();
    await holder.query('BEGIN');
    await holder.query(`SELECT 1 FROM ${options.schema}.sessions WHERE id = 'sess_one' FOR UPDATE`);
    const writes = Array.from({ length: 3 }, () => codeOf(link.writeSession('sess_one', writeOf(3))));
    expect(await codeOf(link.findSession('sess_two'))).toBe('answered');
    expect(await Promise.all(writes)).toEqual(['timeout', 'timeout', 'timeout']);
    // All connections are in use.
    const many = Array.from({ length: 40 }, () => link.writeSession('sess_one', writeOf(3)));
    expect(await timeOf(many)).toBeLessThan(2_500);
    expect(new Set(await Promise.all(many.map(codeOf)))).toEqual(new Set(['timeout']));
    await holder.query('ROLLBACK');
    await holder.end();
    await expect.poll(() => codeOf(link.writeSession('sess_one', writeOf(3)))).toBe('answered');
    const [open] = await server.query(
      `SELECT count(*)::int AS connections FROM pg_stat_activity WHERE application_name = 'parlance' AND state LIKE 'idle in%'`,
    );
    expect(open).toEqual({ connections: 0 });
  });

  it('lets a reply begin with a name while another one that has it is dropped', async () => {
    const options = fresh();
    const logs = opened(repliesOf(postgres(server.url, options)));
    await logs.open({ ...HEAD, name: 'answer' }, BOUNDS, TTL_MS);
    const holder = new pg.Client(server.url);
    await holder.connect();
    // As one that begins does it: first its owner, and then the name.
    await holder.query(`BEGIN; UPDATE ${options.schema}.reply_owners SET replies = replies + 1`);
    const dropped = codeOf(logs.drop(HEAD));
    const waiting = () => server.query("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'");
    await expect.poll(waiting, { interval: 10 }).toHaveLength(1);
    const named = await holder.query(`SELECT 1 FROM ${options.schema}.reply_names FOR UPDATE NOWAIT`);
    expect(named.rowCount).toBe(1);
    await holder.query('ROLLBACK');
    await holder.end();
    await dropped;
    await expect.poll(() => codeOf(logs.drop(HEAD))).toBe('answered');
    expect(await logs.named(HEAD.owner, 'answer')).toBeUndefined();
  });

  it('keeps a proof that is renewed while a sweep is about to remove it', async () => {
    const options = fresh();
    const logs = opened(repliesOf(postgres(server.url, options)));
    await logs.vouch('sess_one', 'principal:ada', ['hash'], 1);
    const holder = new pg.Client(server.url);
    await holder.connect();
    await holder.query(`BEGIN; UPDATE ${options.schema}.reply_proofs SET ends_at = ends_at + ${TTL_MS}`);
    // It sweeps.
    at(server.url, options);
    const waiting = async () => {
      const held = "wait_event_type = 'Lock' AND query LIKE 'DELETE FROM reply_proofs%'";
      return (await server.query(`SELECT 1 FROM pg_stat_activity WHERE ${held}`)).length;
    };
    await expect.poll(waiting, { interval: 10 }).toBe(1);
    await holder.query('COMMIT');
    await holder.end();
    await expect.poll(waiting).toBe(0);
    expect(await logs.prove('sess_one', 'hash')).toBe('principal:ada');
  });

  it('creates the schema once, and takes neither a newer one nor another encoding', async () => {
    const { schema } = fresh();
    const links = Array.from({ length: 8 }, () => at(server.url, { schema }));
    const answers = links.map((link, i) => codeOf(link.renew(`node${i}`, '', TTL_MS)));
    expect(new Set(await Promise.all(answers))).toEqual(new Set(['answered']));
    expect(await server.query(`SELECT version::int FROM ${schema}.schema_version`)).toEqual([{ version: 1 }]);
    await server.query(`UPDATE ${schema}.schema_version SET version = 2`);
    const newer = at(server.url, { schema }).renew('node9', '', TTL_MS);
    await expect(newer).rejects.toMatchObject({
      code: 'unsupported',
      message: expect.stringContaining('upgrade this server'),
    });
    await server.query(`CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0`);
    const latin = at(`postgres://postgres@127.0.0.1:${server.port}/latin`).isVolatile();
    await expect(latin).rejects.toMatchObject({
      code: 'unsupported',
      message: expect.stringContaining('UTF8'),
    });
  });

  it('needs no right to create what is there, and says which right is missing', async () => {
    const { schema } = fresh();
    await at(server.url, { schema }).renew('aaaaaa', '', TTL_MS);
    await server.query('CREATE ROLE app LOGIN');
    const url = `postgres://app@127.0.0.1:${server.port}/postgres`;
    await expect(at(url, fresh()).renew('bbbbbb', '', TTL_MS)).rejects.toMatchObject({
      code: 'connection_failed',
      message: expect.stringContaining('permission denied'),
    });
    await server.query(`GRANT USAGE ON SCHEMA ${schema} TO app;
      GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${schema} TO app`);
    const link = at(url, { schema });
    expect((await link.renew('bbbbbb', '', TTL_MS)).nodes).toHaveLength(2);
    expect(await link.writeSession('sess_one', writeOf(1))).toBe('written');
  });

  it('is refused by its password without showing it', async () => {
    const link = at('postgres://ada:secret@127.0.0.1:1/app');
    await expect(link.findSession('sess_one')).rejects.toMatchObject({
      code: 'connection_failed',
      message: expect.not.stringContaining('secret'),
    });
  });

  it.each([
    ['http://a', {}],
    ['postgres://', { schema: '' }],
    ['postgres://a', { schema: 'A' }],
    ['postgres://a', { schema: 'a"b' }],
    ['postgres://a', { schema: 'x'.repeat(49) }],
    ['postgres://a', { maxConnections: 0 }],
    ['postgres://a', { maxConnections: 1.5 }],
    ['postgres://a:secret@b:port', {}],
  ])('refuses %s with %j', (url, options) => {
    expect(() => postgres(url, options)).toThrow(
      expect.objectContaining({ code: 'invalid_option', message: expect.not.stringContaining('secret') }),
    );
  });
});
