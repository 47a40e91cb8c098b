import { setTimeout as pause } from 'node:timers/promises';
import { codeOf, meanwhile, ok, same } from './asserts.js';
import { claimedFields, ID, moveTo, TTL_MS, textsOf, writeOf } from './record-values.js';
import type { Tests } from './world.js';

/** Time enough for a call on a machine with other work. */
const SHORT_MS = 1_500;

export const recordTests: Tests = {
  async 'fields are written and others removed, in one step, and the owner is told'({ connect }) {
    const link = connect();
    same(await link.writeSession(ID, writeOf(1, { begin: 'b', m1: 'one', m2: 'two' })), 'written');
    same(await link.writeSession(ID, writeOf(2, { m3: 'three' }, { remove: ['m1', 'none'] })), 'written');
    same(await link.findSession(ID), { owner: 'aaaaaa', epoch: 0 });
    const read = await link.readSession(ID, ['begin', 'm1', 'm3']);
    same([read?.owner, read?.epoch], ['aaaaaa', 0]);
    same(textsOf(read?.fields), { begin: 'b', m3: 'three' });
    same(await claimedFields(link), { begin: 'b', m2: 'two', m3: 'three' });
  },

  async 'a reader sees no write in its middle'({ connect }) {
    const [writer, reader] = [connect(), connect()];
    await writer.writeSession(ID, writeOf(1, { aa: '1', bb: '1', c1: '' }));
    const names = ['aa', 'bb', ...Array.from({ length: 20 }, (_, i) => `c${i + 1}`)];
    let isOver = false;
    const read = async () => {
      for (let reads = 0; !isOver || reads < 3; reads++) {
        const { aa, bb, ...rest } = textsOf((await reader.readSession(ID, names))?.fields);
        same(aa, bb);
        same(Object.keys(rest), [`c${aa}`]);
      }
    };
    const write = async () => {
      for (let number = 2; number <= 20; number++) {
        const text = String(number);
        const set = { aa: text, [`c${number}`]: '', bb: text };
        same(await writer.writeSession(ID, writeOf(number, set, { remove: [`c${number - 1}`] })), 'written');
      }
    };
    await meanwhile(read(), write, () => {
      isOver = true;
    });
  },

  async 'every byte is kept'({ connect }) {
    const link = connect();
    const bytes = String.fromCharCode(...Array.from({ length: 256 }, (_, i) => i));
    await link.writeSession(ID, writeOf(1, { begin: bytes, [bytes]: '' }));
    same(await claimedFields(link), { begin: bytes, [bytes]: '' });
  },

  async 'a recorded commit is not written again, however late it comes'({ connect }) {
    const link = connect();
    const [first, second] = [writeOf(1, { begin: 'b', m1: 'one' }), writeOf(2, {}, { remove: ['m1'] })];
    await link.writeSession(ID, first);
    same(await link.writeSession(ID, first), 'written');
    await link.writeSession(ID, second);
    same(await link.writeSession(ID, first), 'written');
    same(await link.writeSession(ID, second), 'written');
    same(await claimedFields(link), { begin: 'b' });
  },

  async 'writes of another node are refused, and of another epoch'({ connect }) {
    const [a, b] = [connect(), connect()];
    await a.writeSession(ID, writeOf(1, { begin: 'b' }));
    same(await b.writeSession(ID, writeOf(2, { m1: 'x' }, { owner: 'bbbbbb' })), 'fenced');
    same(await b.writeSession(ID, writeOf(2, { m1: 'x' }, { epoch: 1 })), 'fenced');
    await b.claimSession(ID, moveTo('bbbbbb'));
    same(await a.writeSession(ID, writeOf(2, { m1: 'x' })), 'fenced');
    // Its first one as well, which may have been on its way for long.
    same(await a.writeSession(ID, writeOf(1, { begin: 'x' })), 'fenced');
    const own = writeOf(1, { m1: 'y' }, { owner: 'bbbbbb', epoch: 1, isFirst: false });
    same(await b.writeSession(ID, own), 'written');
    same(textsOf((await b.readSession(ID, ['begin', 'm1']))?.fields), { begin: 'b', m1: 'y' });
  },

  async 'one of several nodes claims a session, and gets all of it'({ connect }) {
    const links = [connect(), connect(), connect(), connect()];
    const [a] = links as [(typeof links)[number]];
    await a.writeSession(ID, writeOf(1, { begin: 'b' }));
    const claims = await Promise.all(links.map((link, i) => link.claimSession(ID, moveTo(`node0${i}`))));
    const winners = claims.filter((claim) => claim !== undefined);
    same(winners.length, 1);
    same(winners[0]?.epoch, 1);
    same(textsOf(winners[0]?.fields), { begin: 'b' });
    same((await a.findSession(ID))?.owner, winners[0]?.owner);
    same(await a.claimSession(ID, moveTo('dddddd')), undefined);
  },

  async 'a session is claimed once more by the same node, until that has written'({ connect }) {
    const link = connect();
    await link.writeSession(ID, writeOf(1, { begin: 'b' }));
    await link.writeSession(ID, writeOf(2, { m1: 'one' }));
    const claimed = await link.claimSession(ID, moveTo('bbbbbb'));
    same(textsOf(claimed?.fields), { begin: 'b', m1: 'one' });
    same(await link.claimSession(ID, moveTo('bbbbbb')), claimed);
    same(await link.claimSession(ID, moveTo('cccccc')), undefined);
    const next = { owner: 'bbbbbb', epoch: 1, isFirst: false };
    await link.writeSession(ID, writeOf(1, { m2: 'two' }, next));
    // One that comes so late does not make it forget that.
    same(await link.claimSession(ID, moveTo('bbbbbb')), undefined);
    same(await link.writeSession(ID, writeOf(1, { m2: 'late' }, next)), 'written');
    same(await link.moveSession(ID, moveTo('bbbbbb')), { owner: 'bbbbbb', epoch: 1 });
    same(textsOf((await link.readSession(ID, ['m2']))?.fields), { m2: 'two' });
  },

  async 'there is nothing to claim, read or write of a session that is not there'({ connect }) {
    const link = connect();
    same(await link.claimSession(ID, moveTo('bbbbbb')), undefined);
    same(await link.readSession(ID, ['begin']), undefined);
    same(await link.writeSession(ID, writeOf(2, { m1: 'x' })), 'gone');
    same(await link.findSession(ID), undefined);
  },

  async 'a record that was lost and kept after that is gone'({ connect }) {
    const link = connect();
    await link.keepSessions('aaaaaa', new Map([[ID, 0]]), TTL_MS);
    same(await link.writeSession(ID, writeOf(2, { m1: 'x' })), 'gone');
    same(await link.writeSession(ID, writeOf(2, { begin: 'b' }, { isFirst: true })), 'written');
    same(await link.writeSession(ID, writeOf(3, { m1: 'x' })), 'written');
  },

  async 'a session that is kept keeps its fields, and any other is forgotten'({ connect, eventually }) {
    const link = connect();
    const other = `${ID}2`;
    await link.writeSession(ID, writeOf(1, { begin: 'b' }, { ttlMs: SHORT_MS }));
    await link.writeSession(other, writeOf(1, { begin: 'b' }, { ttlMs: SHORT_MS }));
    same(await link.keepSessions('aaaaaa', new Map([[ID, 0]]), TTL_MS), []);
    await pause(SHORT_MS);
    await eventually(
      () => link.findSession(other),
      (found) => same(found, undefined),
    );
    same(await link.readSession(other, ['begin']), undefined);
    same(await link.claimSession(other, moveTo('bbbbbb')), undefined);
    same(await claimedFields(link), { begin: 'b' });
  },

  async 'a session is forgotten for its owner, and for no other node'({ connect }) {
    const link = connect();
    await link.writeSession(ID, writeOf(1, { begin: 'b' }));
    await link.releaseSession(ID, 'bbbbbb', 0);
    await link.releaseSession(ID, 'aaaaaa', 1);
    ok(await link.findSession(ID));
    await link.releaseSession(ID, 'aaaaaa', 0);
    await link.releaseSession(ID, 'aaaaaa', 0);
    same(await link.findSession(ID), undefined);
  },

  async 'sessions are kept apart'({ connect }) {
    const link = connect();
    await link.writeSession(ID, writeOf(1, { begin: 'one' }));
    await link.writeSession(`${ID}}`, writeOf(1, { begin: 'two' }));
    await link.writeSession(`${ID}:m`, writeOf(1, { begin: 'three' }));
    same(await claimedFields(link), { begin: 'one' });
  },

  async 'thousands of fields are written at once'({ connect }) {
    const link = connect();
    const fields = Object.fromEntries(Array.from({ length: 4_321 }, (_, i) => [`p1.${i}`, String(i)]));
    await link.writeSession(ID, writeOf(1, fields));
    same(Object.keys(await claimedFields(link)).length, 4_321);
    const remove = Object.keys(fields).slice(1);
    const more = { owner: 'reader', epoch: 1, isFirst: false, remove };
    same(await link.writeSession(ID, writeOf(1, {}, more)), 'written');
    same((await link.readSession(ID, remove.slice(0, 10)))?.fields.size, 0);
    same((await link.readSession(ID, ['p1.0']))?.fields.size, 1);
  },

  async 'a record grows up to its bound, exactly'({ connect }) {
    const link = connect();
    const bounded = (number: number, set: Record<string, string>, maxBytes: number, remove: string[] = []) =>
      link.writeSession(ID, writeOf(number, set, { maxBytes, remove }));
    // Names count as much as values, and a character beyond ASCII by its bytes.
    const first = { begin: 'b', m1: '\x80'.repeat(93) };
    same(await bounded(1, first, 100), { needed: 101 });
    same(await link.findSession(ID), undefined);
    same(await bounded(1, first, 101), 'written');
    same(await bounded(2, { '\u00fc1': '' }, 103), { needed: 104 });
    same((await link.readSession(ID, ['\u00fc1']))?.fields.size, 0);
    same(await bounded(2, { '\u00fc1': '' }, 104), 'written');
    // A value that is there already is written again with any bound.
    same(await bounded(2, { '\u00fc1': '' }, 1), 'written');
    // A value that replaces another one counts instead of it, and what is removed does not count.
    same(await bounded(3, { m1: 'x'.repeat(94) }, 104), { needed: 105 });
    same(await bounded(3, { m1: 'x'.repeat(93), m2: 'y' }, 104, ['\u00fc1', 'none']), 'written');
    same(await bounded(4, { m3: '' }, 105), { needed: 106 });
    // A record that is too large may become smaller.
    same(await bounded(4, { m1: 'x'.repeat(92) }, 1), 'written');
    same(await bounded(5, { m3: '' }, 105), 'written');
    const claimed = await link.claimSession(ID, moveTo('bbbbbb'));
    same(textsOf(claimed?.fields), { begin: 'b', m1: 'x'.repeat(92), m2: 'y', m3: '' });
    const next = { owner: 'bbbbbb', epoch: 1, isFirst: false };
    same(await link.writeSession(ID, writeOf(1, { m4: '' }, { ...next, maxBytes: 106 })), { needed: 107 });
    same(await link.writeSession(ID, writeOf(1, { m4: '' }, { ...next, maxBytes: 107 })), 'written');
    same(await link.writeSession(ID, writeOf(2, { m5: '' }, next)), 'written');
  },

  async 'writes are counted anew after a move, as after a claim'({ connect }) {
    const link = connect();
    for (const number of [1, 2]) await link.writeSession(ID, writeOf(number, { m1: `${number}` }));
    for (let twice = 0; twice < 2; twice++)
      same(await link.moveSession(ID, moveTo('bbbbbb')), { owner: 'bbbbbb', epoch: 1 });
    const own = writeOf(1, { m1: 'moved' }, { owner: 'bbbbbb', epoch: 1, isFirst: false });
    same(await link.writeSession(ID, own), 'written');
    same(textsOf((await link.readSession(ID, ['m1']))?.fields), { m1: 'moved' });
    // One that was on its way for long changes nothing.
    await link.moveSession(ID, moveTo('bbbbbb'));
    same(await link.writeSession(ID, { ...own, number: 2, after: 1 }), 'written');
  },

  async 'an engine that is behind says so, and takes all fields in place of those that it has'({ connect }) {
    const link = connect();
    await link.writeSession(ID, writeOf(1, { begin: 'b', m1: 'one' }));
    same(await link.writeSession(ID, writeOf(3, { m3: 'three' }, { after: 2 })), 'behind');
    same(await link.writeSession(ID, writeOf(2, { m2: 'two' }, { after: 1 })), 'written');
    const all = writeOf(4, { begin: 'b', m3: 'three' }, { after: 3, replaces: true });
    same(await link.writeSession(ID, { ...all, maxBytes: 11 }), { needed: 13 });
    for (let twice = 0; twice < 2; twice++) same(await link.writeSession(ID, all), 'written');
    // One that comes late replaces nothing.
    const late = writeOf(3, { begin: 'late' }, { replaces: true });
    same(await link.writeSession(ID, late), 'written');
    same(await claimedFields(link), { begin: 'b', m3: 'three' });
  },

  async 'all fields are taken in place of nothing, or of a lower epoch, and not from a node that has lost the session'({
    connect,
  }) {
    const link = connect();
    const all = (owner: string, epoch: number, number = 5) =>
      writeOf(number, { begin: owner }, { owner, epoch, isFirst: false, after: number - 1, replaces: true });
    same(await link.writeSession(ID, all('bbbbbb', 1)), 'written');
    same(await link.writeSession(ID, all('aaaaaa', 0)), 'fenced');
    same(await link.writeSession(ID, all('cccccc', 1)), 'fenced');
    same(await link.writeSession(ID, all('dddddd', 2, 1)), 'written');
    same(await link.findSession(ID), { owner: 'dddddd', epoch: 2 });
    // Kept after it was lost.
    await link.keepSessions('aaaaaa', new Map([[`${ID}2`, 0]]), TTL_MS);
    same(await link.writeSession(`${ID}2`, all('aaaaaa', 0)), 'written');
  },

  async 'it is remembered that a session is over that was claimed'({ connect }) {
    const link = connect();
    await link.writeSession(ID, writeOf(1, { begin: 'b' }));
    await link.claimSession(ID, moveTo('bbbbbb'));
    await link.releaseSession(ID, 'bbbbbb', 1);
    same(await link.findSession(ID), undefined);
    same(await link.readSession(ID, ['begin']), undefined);
    same(await link.claimSession(ID, moveTo('cccccc', 1, 'bbbbbb')), undefined);
    for (const replaces of [false, true])
      same(await link.writeSession(ID, writeOf(2, { begin: 'b' }, { replaces })), 'fenced');
    same(await link.keepSessions('aaaaaa', new Map([[ID, 0]]), TTL_MS), [ID]);
  },

  async 'a write that no replica can confirm is refused, as the engine says before'({ connect }) {
    const link = connect();
    const checked = await codeOf(link.checkReplica?.() ?? Promise.resolve());
    if (checked === 'answered') return;
    same(checked, 'unsupported');
    same(
      await codeOf(link.writeSession(ID, writeOf(1, { begin: 'b' }, { isReplicated: true }))),
      'unsupported',
    );
    same(await link.findSession(ID), undefined);
  },
};
