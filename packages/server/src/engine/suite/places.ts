import { setTimeout as pause } from 'node:timers/promises';
import { same } from './asserts.js';
import type { Tests } from './world.js';

const LONG_MS = 60_000;

/** Time enough for two calls on a machine with other work. */
const SHORT_MS = 1_500;

export const placeTests: Tests = {
  async 'one of two nodes gets a session that moves, and both are told which'({ connect }) {
    const [a, b] = [connect(), connect()];
    same(await a.findSession('sess_1'), undefined);
    const from = { from: 'aaaaaa', epoch: 0, ttlMs: LONG_MS };
    const both = await Promise.all([
      a.moveSession('sess_1', { ...from, to: 'bbbbbb' }),
      b.moveSession('sess_1', { ...from, to: 'cccccc' }),
    ]);
    same(both[0], both[1]);
    const [{ owner, epoch }] = both;
    same(epoch, 1);
    same(await b.findSession('sess_1'), { owner, epoch });
    same(await b.findSession('sess_2'), undefined);
    const onward = await a.moveSession('sess_1', { from: owner, epoch, to: 'dddddd', ttlMs: LONG_MS });
    same(onward, { owner: 'dddddd', epoch: 2 });
    // Of a node that has had it, and of its owner with an old number.
    same(await a.moveSession('sess_1', { from: owner, epoch, to: owner, ttlMs: LONG_MS }), onward);
    same(await a.moveSession('sess_1', { ...from, from: 'dddddd', to: 'eeeeee' }), onward);
  },

  async 'the epoch grows by one with each move, however many nodes want the session'({ connect }) {
    const links = [connect(), connect(), connect()];
    let record = { owner: 'node', epoch: 0 };
    for (let round = 1; round <= 5; round++) {
      const { owner, epoch } = record;
      const all = await Promise.all(
        links.map((link, i) =>
          link.moveSession('sess_1', { from: owner, epoch, to: `${round}${i}`, ttlMs: LONG_MS }),
        ),
      );
      same(new Set(all.map((each) => `${each.owner} ${each.epoch}`)).size, 1);
      record = all[0] as (typeof all)[number];
      same(record.epoch, round);
    }
  },

  async 'one of many HELLOs at once gets a key that none has, for as long as it says'({
    connect,
    eventually,
  }) {
    const links = [connect(), connect(), connect(), connect()];
    const key = 'sess_nonce_47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU';
    const said = (to: string, ttlMs = LONG_MS) => ({ from: '', epoch: 0, to, ttlMs });
    const all = await Promise.all(
      Array.from({ length: 20 }, (_, i) => links[i % links.length]?.moveSession(key, said(`sess_${i}`))),
    );
    const [first] = all as [{ owner: string; epoch: number }];
    same(new Set(all.map((each) => `${each?.owner} ${each?.epoch}`)).size, 1);
    same(first.epoch, 1);
    const [a, b] = links as [(typeof links)[number], (typeof links)[number]];
    // The one that has it may ask again; another one takes its place only if it names it.
    same(await b.moveSession(key, said(first.owner)), first);
    const next = { from: first.owner, epoch: 1, to: 'sess_next', ttlMs: SHORT_MS };
    same(await a.moveSession(key, next), { owner: 'sess_next', epoch: 2 });
    same(await b.moveSession(key, said('sess_late')), { owner: 'sess_next', epoch: 2 });
    await pause(SHORT_MS);
    await eventually(
      () => b.moveSession(key, said('sess_late')),
      (found) => same(found, { owner: 'sess_late', epoch: 1 }),
    );
  },

  async 'a session is forgotten unless its node keeps it'({ connect, eventually }) {
    const link = connect();
    const move = { from: 'aaaaaa', epoch: 4, to: 'bbbbbb', ttlMs: SHORT_MS };
    for (const id of ['sess_1', 'sess_2', 'sess_3']) await link.moveSession(id, move);
    const kept = new Map([
      ['sess_1', 5],
      ['sess_2', 4],
      ['sess_4', 7],
    ]);
    same(await link.keepSessions('bbbbbb', kept, LONG_MS), ['sess_2']);
    same(await link.keepSessions('cccccc', new Map([['sess_1', 5]]), LONG_MS), ['sess_1']);
    await pause(SHORT_MS);
    await eventually(
      () => link.findSession('sess_3'),
      (found) => same(found, undefined),
    );
    same(await link.findSession('sess_1'), { owner: 'bbbbbb', epoch: 5 });
    // It was gone, and is written again.
    same(await link.findSession('sess_4'), { owner: 'bbbbbb', epoch: 7 });
  },

  async 'hundreds of sessions are kept at once'({ connect }) {
    const link = connect();
    const epochs = new Map(Array.from({ length: 300 }, (_, i) => [`sess_${i}`, i + 1] as const));
    same(await link.keepSessions('aaaaaa', epochs, LONG_MS), []);
    same(await link.findSession('sess_299'), { owner: 'aaaaaa', epoch: 300 });
    same(await link.keepSessions('aaaaaa', new Map(), LONG_MS), []);
  },

  async 'a session is released by its owner in its epoch, and by no other'({ connect }) {
    const link = connect();
    await link.moveSession('sess_1', { from: 'aaaaaa', epoch: 0, to: 'bbbbbb', ttlMs: LONG_MS });
    await link.releaseSession('sess_1', 'aaaaaa', 1);
    await link.releaseSession('sess_1', 'bbbbbb', 0);
    same(await link.findSession('sess_1'), { owner: 'bbbbbb', epoch: 1 });
    await link.releaseSession('sess_1', 'bbbbbb', 1);
    same(await link.findSession('sess_1'), undefined);
    await link.releaseSession('sess_1', 'bbbbbb', 1);
  },
};
