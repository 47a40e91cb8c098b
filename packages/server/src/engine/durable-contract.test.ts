import { expect } from 'vitest';
import type { EngineConnection, SessionWrite } from './engine.js';
import { describeEngines } from './testing/engines.js';

/** What every engine does for durable sessions, whichever engine it has. */

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

describeEngines('durable sessions with', (test) => {
  const fieldsOf = async (link: EngineConnection, epoch = 0) =>
    textsOf((await link.claimSession(ID, moveTo('reader', epoch)))?.fields);

  test('writes fields and removes others, in one step, and says who has the session', async ({ connect }) => {
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

  test('keeps every byte', async ({ connect }) => {
    const link = connect();
    const bytes = String.fromCharCode(...Array.from({ length: 256 }, (_, i) => i));
    await link.writeSession(ID, writeOf(1, { begin: bytes, [bytes]: '' }));
    expect(await fieldsOf(link)).toEqual({ begin: bytes, [bytes]: '' });
  });

  test('writes nothing again that it has, however late it comes', async ({ connect }) => {
    const link = connect();
    const [first, second] = [writeOf(1, { begin: 'b', m1: 'one' }), writeOf(2, {}, { remove: ['m1'] })];
    await link.writeSession(ID, first);
    expect(await link.writeSession(ID, first)).toBe('written');
    await link.writeSession(ID, second);
    expect(await link.writeSession(ID, first)).toBe('written');
    expect(await link.writeSession(ID, second)).toBe('written');
    expect(await fieldsOf(link)).toEqual({ begin: 'b' });
  });

  test('refuses writes of another node, and of another epoch', async ({ connect }) => {
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

  test('lets one of two nodes claim a session, which gets all of it', async ({ connect }) => {
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

  test('is claimed once more by the same node, until that has written', async ({ connect }) => {
    const link = connect();
    await link.writeSession(ID, writeOf(1, { begin: 'b' }));
    await link.writeSession(ID, writeOf(2, { m1: 'one' }));
    const claimed = await link.claimSession(ID, moveTo('bbbbbb'));
    expect(textsOf(claimed?.fields)).toEqual({ begin: 'b', m1: 'one' });
    expect(await link.claimSession(ID, moveTo('bbbbbb'))).toEqual(claimed);
    expect(await link.claimSession(ID, moveTo('cccccc'))).toBeUndefined();
    const next = { owner: 'bbbbbb', epoch: 1, isFirst: false };
    await link.writeSession(ID, writeOf(1, { m2: 'two' }, next));
    // One that comes so late does not make it forget that.
    expect(await link.claimSession(ID, moveTo('bbbbbb'))).toBeUndefined();
    expect(await link.writeSession(ID, writeOf(1, { m2: 'late' }, next))).toBe('written');
    expect(await link.moveSession(ID, moveTo('bbbbbb'))).toEqual({ owner: 'bbbbbb', epoch: 1 });
    expect(textsOf((await link.readSession(ID, ['m2']))?.fields)).toEqual({ m2: 'two' });
  });

  test('has nothing to claim, read or write of a session that is not there', async ({ connect }) => {
    const link = connect();
    expect(await link.claimSession(ID, moveTo('bbbbbb'))).toBeUndefined();
    expect(await link.readSession(ID, ['begin'])).toBeUndefined();
    expect(await link.writeSession(ID, writeOf(2, { m1: 'x' }))).toBe('gone');
    expect(await link.findSession(ID)).toBeUndefined();
  });

  test('says that a record is gone that was kept after it was lost', async ({ connect }) => {
    const link = connect();
    await link.keepSessions('aaaaaa', new Map([[ID, 0]]), TTL_MS);
    expect(await link.writeSession(ID, writeOf(2, { m1: 'x' }))).toBe('gone');
    expect(await link.writeSession(ID, writeOf(2, { begin: 'b' }, { isFirst: true }))).toBe('written');
    expect(await link.writeSession(ID, writeOf(3, { m1: 'x' }))).toBe('written');
  });

  test('keeps the fields of a session that is kept', async ({ connect }) => {
    const link = connect();
    await link.writeSession(ID, writeOf(1, { begin: 'b' }, { ttlMs: 200 }));
    expect(await link.keepSessions('aaaaaa', new Map([[ID, 0]]), TTL_MS)).toEqual([]);
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(await fieldsOf(link)).toEqual({ begin: 'b' });
  });

  test('forgets a session when its time is over', async ({ connect }) => {
    const link = connect();
    await link.writeSession(ID, writeOf(1, { begin: 'b' }, { ttlMs: 20 }));
    await expect.poll(() => link.findSession(ID)).toBeUndefined();
  });

  test('forgets a session for its owner, and for no other node', async ({ connect }) => {
    const link = connect();
    await link.writeSession(ID, writeOf(1, { begin: 'b' }));
    await link.releaseSession(ID, 'bbbbbb', 0);
    await link.releaseSession(ID, 'aaaaaa', 1);
    expect(await link.findSession(ID)).toBeDefined();
    await link.releaseSession(ID, 'aaaaaa', 0);
    await link.releaseSession(ID, 'aaaaaa', 0);
    expect(await link.findSession(ID)).toBeUndefined();
  });

  test('keeps sessions apart', async ({ connect }) => {
    const link = connect();
    await link.writeSession(ID, writeOf(1, { begin: 'one' }));
    await link.writeSession(`${ID}}`, writeOf(1, { begin: 'two' }));
    await link.writeSession(`${ID}:m`, writeOf(1, { begin: 'three' }));
    expect(await fieldsOf(link)).toEqual({ begin: 'one' });
  });

  test('takes thousands of fields at once', async ({ connect }) => {
    const link = connect();
    const fields = Object.fromEntries(Array.from({ length: 4_321 }, (_, i) => [`p1.${i}`, String(i)]));
    await link.writeSession(ID, writeOf(1, fields));
    expect(Object.keys(await fieldsOf(link))).toHaveLength(4_321);
    const remove = Object.keys(fields).slice(1);
    const more = { owner: 'reader', epoch: 1, isFirst: false, remove };
    expect(await link.writeSession(ID, writeOf(1, {}, more))).toBe('written');
    expect((await link.readSession(ID, remove.slice(0, 10)))?.fields.size).toBe(0);
  });

  test('lets a record grow up to its bound, exactly', async ({ connect }) => {
    const link = connect();
    const bounded = (number: number, set: Record<string, string>, maxBytes: number, remove: string[] = []) =>
      link.writeSession(ID, writeOf(number, set, { maxBytes, remove }));
    // Names count as much as values, and a character beyond ASCII by its bytes.
    const first = { begin: 'b', m1: '\x80'.repeat(93) };
    expect(await bounded(1, first, 100)).toEqual({ needed: 101 });
    expect(await link.findSession(ID)).toBeUndefined();
    expect(await bounded(1, first, 101)).toBe('written');
    expect(await bounded(2, { '\u00fc1': '' }, 103)).toEqual({ needed: 104 });
    expect(await bounded(2, { '\u00fc1': '' }, 104)).toBe('written');
    // What is there already is written again with any bound.
    expect(await bounded(2, { '\u00fc1': '' }, 1)).toBe('written');
    // A value that replaces another one counts instead of it, and what is removed does not count.
    expect(await bounded(3, { m1: 'x'.repeat(94) }, 104)).toEqual({ needed: 105 });
    expect(await bounded(3, { m1: 'x'.repeat(93), m2: 'y' }, 104, ['\u00fc1', 'none'])).toBe('written');
    expect(await bounded(4, { m3: '' }, 105)).toEqual({ needed: 106 });
    // A record that is too large may become smaller.
    expect(await bounded(4, { m1: 'x'.repeat(92) }, 1)).toBe('written');
    expect(await bounded(5, { m3: '' }, 105)).toBe('written');
    const claimed = await link.claimSession(ID, moveTo('bbbbbb'));
    expect(textsOf(claimed?.fields)).toEqual({ begin: 'b', m1: 'x'.repeat(92), m2: 'y', m3: '' });
    const next = { owner: 'bbbbbb', epoch: 1, isFirst: false };
    expect(await link.writeSession(ID, writeOf(1, { m4: '' }, { ...next, maxBytes: 106 }))).toEqual({
      needed: 107,
    });
    expect(await link.writeSession(ID, writeOf(1, { m4: '' }, { ...next, maxBytes: 107 }))).toBe('written');
    expect(await link.writeSession(ID, writeOf(2, { m5: '' }, next))).toBe('written');
  });

  test('counts writes anew after a move, as after a claim', async ({ connect }) => {
    const link = connect();
    for (const number of [1, 2]) await link.writeSession(ID, writeOf(number, { m1: `${number}` }));
    for (let twice = 0; twice < 2; twice++)
      expect(await link.moveSession(ID, moveTo('bbbbbb'))).toEqual({ owner: 'bbbbbb', epoch: 1 });
    const own = writeOf(1, { m1: 'moved' }, { owner: 'bbbbbb', epoch: 1, isFirst: false });
    expect(await link.writeSession(ID, own)).toBe('written');
    expect(textsOf((await link.readSession(ID, ['m1']))?.fields)).toEqual({ m1: 'moved' });
    // One that was on its way for long changes nothing.
    await link.moveSession(ID, moveTo('bbbbbb'));
    expect(await link.writeSession(ID, { ...own, number: 2, after: 1 })).toBe('written');
  });

  test('reserves as many bytes as the sessions of one principal may have, exactly', async ({ connect }) => {
    const [a, b] = [connect(), connect()];
    const room = (bytes: number, maxBytes = 100, ttlMs = TTL_MS) => ({ bytes, maxBytes, ttlMs });
    expect(await a.reserveRoom('ada', 'one', room(60))).toBe(60);
    expect(await b.reserveRoom('ada', 'two', room(41))).toBeUndefined();
    expect(await b.reserveRoom('ada', 'two', room(40))).toBe(40);
    expect(await a.reserveRoom('ada', 'one', room(61))).toBeUndefined();
    // A session keeps what it has, and others have their own.
    expect(await b.reserveRoom('ada', 'one', room(10))).toBe(60);
    expect(await a.reserveRoom('ada:one', 'one', room(100))).toBe(100);
    await a.releaseRoom('ada', 'two');
    await a.releaseRoom('ada', 'two');
    expect(await a.reserveRoom('ada', 'one', room(100))).toBe(100);
    expect(await b.reserveRoom('ada', 'two', room(1))).toBeUndefined();
    await b.releaseRoom('ada', 'one');
    expect(await b.reserveRoom('ada', 'two', room(100, 100, 30))).toBe(100);
    await expect.poll(() => a.reserveRoom('ada', 'one', room(100))).toBe(100);
  });

  test('says that it is behind, and takes all fields then in place of those that it has', async ({
    connect,
  }) => {
    const link = connect();
    await link.writeSession(ID, writeOf(1, { begin: 'b', m1: 'one' }));
    expect(await link.writeSession(ID, writeOf(3, { m3: 'three' }, { after: 2 }))).toBe('behind');
    expect(await link.writeSession(ID, writeOf(2, { m2: 'two' }, { after: 1 }))).toBe('written');
    const all = writeOf(4, { begin: 'b', m3: 'three' }, { after: 3, replaces: true });
    expect(await link.writeSession(ID, { ...all, maxBytes: 11 })).toEqual({ needed: 13 });
    for (let twice = 0; twice < 2; twice++) expect(await link.writeSession(ID, all)).toBe('written');
    // One that comes late replaces nothing.
    const late = writeOf(3, { begin: 'late' }, { replaces: true });
    expect(await link.writeSession(ID, late)).toBe('written');
    expect(await fieldsOf(link)).toEqual({ begin: 'b', m3: 'three' });
  });

  test('takes all fields if it has nothing, or a lower epoch, and not from a node that has lost the session', async ({
    connect,
  }) => {
    const link = connect();
    const all = (owner: string, epoch: number, number = 5) =>
      writeOf(number, { begin: owner }, { owner, epoch, isFirst: false, after: number - 1, replaces: true });
    expect(await link.writeSession(ID, all('bbbbbb', 1))).toBe('written');
    expect(await link.writeSession(ID, all('aaaaaa', 0))).toBe('fenced');
    expect(await link.writeSession(ID, all('cccccc', 1))).toBe('fenced');
    expect(await link.writeSession(ID, all('dddddd', 2, 1))).toBe('written');
    expect(await link.findSession(ID)).toEqual({ owner: 'dddddd', epoch: 2 });
    // Kept after it was lost.
    await link.keepSessions('aaaaaa', new Map([[`${ID}2`, 0]]), TTL_MS);
    expect(await link.writeSession(`${ID}2`, all('aaaaaa', 0))).toBe('written');
  });

  test('remembers that a session is over that was claimed', async ({ connect }) => {
    const link = connect();
    await link.writeSession(ID, writeOf(1, { begin: 'b' }));
    await link.claimSession(ID, moveTo('bbbbbb'));
    await link.releaseSession(ID, 'bbbbbb', 1);
    expect(await link.findSession(ID)).toBeUndefined();
    expect(await link.readSession(ID, ['begin'])).toBeUndefined();
    expect(await link.claimSession(ID, moveTo('cccccc', 1, 'bbbbbb'))).toBeUndefined();
    for (const replaces of [false, true])
      expect(await link.writeSession(ID, writeOf(2, { begin: 'b' }, { replaces }))).toBe('fenced');
    expect(await link.keepSessions('aaaaaa', new Map([[ID, 0]]), TTL_MS)).toEqual([ID]);
  });
});
