import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Backplane, BackplaneLink, SessionWrite } from './backplane.js';
import { type Engine, engines } from './testing/engines.js';
import { redisMissing } from './testing/redis-server.js';

/** What every backplane does for durable sessions, whichever engine it has. */

const TTL_MS = 60_000;
const ID = 'sess_aaaaaa0123456789abcd';

const writeOf = (
  number: number,
  set: Record<string, string>,
  more: Partial<SessionWrite> = {},
): SessionWrite => ({
  ...{ owner: 'aaaaaa', epoch: 0, number, isFirst: number === 1, ttlMs: TTL_MS, remove: [] },
  set: new Map(Object.entries(set).map(([name, text]) => [name, Buffer.from(text, 'latin1')])),
  ...more,
});
/** By name, in order; a character is a byte. */
const textsOf = (fields: Iterable<readonly [string, Uint8Array]> = []) =>
  Object.fromEntries(
    [...fields]
      .map(([name, bytes]) => [name, Buffer.from(bytes).toString('latin1')] as const)
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  );
const moveTo = (to: string, epoch = 0, from = 'aaaaaa') => ({ from, epoch, to, ttlMs: TTL_MS });

describe.each(Object.entries(engines))('durable sessions with %s', (name, start) => {
  const skips = name !== 'memory' && redisMissing !== undefined;
  let engine: Engine;
  let cluster: Backplane;
  const links: BackplaneLink[] = [];
  const connect = (): BackplaneLink => {
    const link = cluster.connect();
    links.push(link);
    return link;
  };

  beforeAll(async () => {
    if (!skips) engine = await start();
  });
  afterEach(async () => {
    for (const link of links.splice(0)) await link.close();
  });
  afterAll(async () => {
    if (!skips) await engine.close();
  });
  const test = (what: string, run: () => Promise<void>) =>
    it.skipIf(skips)(skips ? `${what} (${redisMissing})` : what, async () => {
      cluster = engine.create();
      await run();
    });
  const fieldsOf = async (link: BackplaneLink, epoch = 0) =>
    textsOf((await link.claimSession(ID, moveTo('reader', epoch)))?.fields);

  test('writes fields and removes others, in one step, and says who has the session', async () => {
    const link = connect();
    expect(await link.writeSession(ID, writeOf(1, { begin: 'b', m1: 'one', m2: 'two' }))).toBe('written');
    expect(await link.writeSession(ID, writeOf(2, { m3: 'three' }, { remove: ['m1', 'none'] }))).toBe(
      'written',
    );
    expect(await link.findSession(ID)).toEqual({ owner: 'aaaaaa', epoch: 0 });
    const read = await link.readSession(ID, ['begin', 'm1', 'm3']);
    expect(read).toMatchObject({ owner: 'aaaaaa', epoch: 0 });
    expect(textsOf(read?.fields)).toEqual({ begin: 'b', m3: 'three' });
    expect(await fieldsOf(link)).toEqual({ begin: 'b', m2: 'two', m3: 'three' });
  });

  test('keeps every byte', async () => {
    const link = connect();
    const bytes = String.fromCharCode(...Array.from({ length: 256 }, (_, i) => i));
    await link.writeSession(ID, writeOf(1, { begin: bytes, [bytes]: '' }));
    expect(await fieldsOf(link)).toEqual({ begin: bytes, [bytes]: '' });
  });

  test('writes nothing again that it has, however late it comes', async () => {
    const link = connect();
    const [first, second] = [writeOf(1, { begin: 'b', m1: 'one' }), writeOf(2, {}, { remove: ['m1'] })];
    await link.writeSession(ID, first);
    expect(await link.writeSession(ID, first)).toBe('written');
    await link.writeSession(ID, second);
    expect(await link.writeSession(ID, first)).toBe('written');
    expect(await link.writeSession(ID, second)).toBe('written');
    expect(await fieldsOf(link)).toEqual({ begin: 'b' });
  });

  test('refuses writes of another node, and of another epoch', async () => {
    const [a, b] = [connect(), connect()];
    await a.writeSession(ID, writeOf(1, { begin: 'b' }));
    expect(await b.writeSession(ID, writeOf(2, { m1: 'x' }, { owner: 'bbbbbb' }))).toBe('fenced');
    expect(await b.writeSession(ID, writeOf(2, { m1: 'x' }, { epoch: 1 }))).toBe('fenced');
    await b.claimSession(ID, moveTo('bbbbbb'));
    expect(await a.writeSession(ID, writeOf(2, { m1: 'x' }))).toBe('fenced');
    // Its first one as well, which may have been on its way for long.
    expect(await a.writeSession(ID, writeOf(1, { begin: 'x' }))).toBe('fenced');
    const own = writeOf(1, { m1: 'y' }, { owner: 'bbbbbb', epoch: 1, isFirst: false });
    expect(await b.writeSession(ID, own)).toBe('written');
    expect(textsOf((await b.readSession(ID, ['begin', 'm1']))?.fields)).toEqual({ begin: 'b', m1: 'y' });
  });

  test('lets one of two nodes claim a session, which gets all of it', async () => {
    const [a, b] = [connect(), connect()];
    await a.writeSession(ID, writeOf(1, { begin: 'b' }));
    const claims = await Promise.all([
      a.claimSession(ID, moveTo('bbbbbb')),
      b.claimSession(ID, moveTo('cccccc')),
    ]);
    const winners = claims.filter((claim) => claim !== undefined);
    expect(winners).toHaveLength(1);
    expect(winners[0]?.epoch).toBe(1);
    expect(textsOf(winners[0]?.fields)).toEqual({ begin: 'b' });
    expect((await a.findSession(ID))?.owner).toBe(winners[0]?.owner);
    expect(await b.claimSession(ID, moveTo('dddddd'))).toBeUndefined();
  });

  test('has nothing to claim, read or write of a session that is not there', async () => {
    const link = connect();
    expect(await link.claimSession(ID, moveTo('bbbbbb'))).toBeUndefined();
    expect(await link.readSession(ID, ['begin'])).toBeUndefined();
    expect(await link.writeSession(ID, writeOf(2, { m1: 'x' }))).toBe('gone');
    expect(await link.findSession(ID)).toBeUndefined();
  });

  test('says that a record is gone that was kept after it was lost', async () => {
    const link = connect();
    await link.keepSessions('aaaaaa', new Map([[ID, 0]]), TTL_MS);
    expect(await link.writeSession(ID, writeOf(2, { m1: 'x' }))).toBe('gone');
    expect(await link.writeSession(ID, writeOf(2, { begin: 'b' }, { isFirst: true }))).toBe('written');
    expect(await link.writeSession(ID, writeOf(3, { m1: 'x' }))).toBe('written');
  });

  test('keeps the fields of a session that is kept', async () => {
    const link = connect();
    await link.writeSession(ID, writeOf(1, { begin: 'b' }, { ttlMs: 200 }));
    expect(await link.keepSessions('aaaaaa', new Map([[ID, 0]]), TTL_MS)).toEqual([]);
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(await fieldsOf(link)).toEqual({ begin: 'b' });
  });

  test('forgets a session when its time is over', async () => {
    const link = connect();
    await link.writeSession(ID, writeOf(1, { begin: 'b' }, { ttlMs: 20 }));
    await expect.poll(() => link.findSession(ID)).toBeUndefined();
  });

  test('forgets a session for its owner, and for no other node', async () => {
    const link = connect();
    await link.writeSession(ID, writeOf(1, { begin: 'b' }));
    await link.releaseSession(ID, 'bbbbbb', 0);
    await link.releaseSession(ID, 'aaaaaa', 1);
    expect(await link.findSession(ID)).toBeDefined();
    await link.releaseSession(ID, 'aaaaaa', 0);
    await link.releaseSession(ID, 'aaaaaa', 0);
    expect(await link.findSession(ID)).toBeUndefined();
  });

  test('keeps sessions apart', async () => {
    const link = connect();
    await link.writeSession(ID, writeOf(1, { begin: 'one' }));
    await link.writeSession(`${ID}}`, writeOf(1, { begin: 'two' }));
    await link.writeSession(`${ID}:m`, writeOf(1, { begin: 'three' }));
    expect(await fieldsOf(link)).toEqual({ begin: 'one' });
  });

  test('takes thousands of fields at once', async () => {
    const link = connect();
    const fields = Object.fromEntries(Array.from({ length: 4_321 }, (_, i) => [`p1.${i}`, String(i)]));
    await link.writeSession(ID, writeOf(1, fields));
    expect(Object.keys(await fieldsOf(link))).toHaveLength(4_321);
    const remove = Object.keys(fields).slice(1);
    const more = { owner: 'reader', epoch: 1, isFirst: false, remove };
    expect(await link.writeSession(ID, writeOf(1, {}, more))).toBe('written');
    expect((await link.readSession(ID, remove.slice(0, 10)))?.fields.size).toBe(0);
  });
});
