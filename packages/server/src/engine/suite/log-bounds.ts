import { setTimeout as pause } from 'node:timers/promises';
import { batchCharge, headCharge } from '../logs/logs.js';
import { like, ok, same } from './asserts.js';
import { BOUNDS, batchOf, endOf, headOf, LIVE_MS, readAll, recordOf, text } from './log-values.js';
import type { Tests } from './world.js';

export const logBoundTests: Tests = {
  async 'a reply is forgotten when its time is over, with its name and its charge'({
    connectLogs: connect,
    eventually,
  }) {
    const logs = connect();
    const bounds = { ...BOUNDS, maxReplies: 2 };
    const [old, unkept, other] = [headOf({ name: 'n', ttlMs: 300 }), headOf(), headOf({ name: 'n' })];
    await logs.open(old, bounds, LIVE_MS);
    await logs.open(unkept, bounds, 300);
    await logs.append(batchOf(old, [], [recordOf('1')]), bounds, LIVE_MS);
    // By the first one alone: the time of the other may be over.
    same(await logs.open(other, { ...bounds, maxReplies: 1 }, LIVE_MS), 'too_many_replies');
    same(await logs.end(endOf(old, 1), bounds), 'done');
    for (const { id } of [unkept, old])
      await eventually(
        () => logs.find(id),
        (found) => same(found, undefined),
      );
    same(await logs.named(old.owner, 'n'), undefined);
    same((await logs.list(old.owner)).entries, []);
    same(await logs.open(other, { ...bounds, maxOwnerBytes: headCharge(other) }, LIVE_MS), 'done');
    like(await logs.named(old.owner, 'n'), { id: other.id });
    await logs.drop(other);
    same(await logs.find(other.id), undefined);
    same(await logs.named(old.owner, 'n'), undefined);
    const again = headOf();
    same(await logs.open(again, { ...bounds, maxOwnerBytes: headCharge(again) }, LIVE_MS), 'done');
  },

  async 'a reply is kept for as long as its writer says so'({ connectLogs: connect }) {
    const logs = connect();
    const head = headOf();
    await logs.open(head, BOUNDS, 1_500);
    await logs.append(batchOf(head, [], [recordOf('1')]), BOUNDS, 1_500);
    same(await logs.keep(head, LIVE_MS), { outcome: 'done', followedMs: Infinity });
    await pause(1_800);
    like(await logs.read(head.id, 0), { records: [recordOf('1')] });
    like(await logs.follow(head.id), { parts: 1, hasEnded: false });
    const kept = await logs.keep(head, LIVE_MS);
    ok(kept.outcome === 'done' && kept.followedMs < LIVE_MS, 'it is not told that the reply was followed');
    await logs.end(endOf(head, 1), BOUNDS);
    like(await logs.follow(head.id), { parts: 1, hasEnded: true });
  },

  async 'an infinite bound is none'({ connectLogs: connect }) {
    const logs = connect();
    const head = headOf();
    const none = { maxReplies: Infinity, maxReplyBytes: Infinity, maxOwnerBytes: Infinity };
    same(await logs.open(head, none, LIVE_MS), 'done');
    same(await logs.append(batchOf(head, [], [recordOf('1')]), none, LIVE_MS), 'done');
    same(await logs.end(endOf(head, 1), none), 'done');
  },

  async 'bounds of a reply and of its owner are exact'({ connectLogs: connect }) {
    const logs = connect();
    const [one, two] = [headOf(), headOf()];
    const batch = batchOf(one, [], [recordOf('12345'), recordOf('')], [[1, text('m')]]);
    const full = headCharge(one) + batchCharge(batch);
    const small = { ...BOUNDS, maxOwnerBytes: headCharge(one) - 1 };
    same(await logs.open(one, small, LIVE_MS), 'over_budget');
    same(await logs.open(one, { ...BOUNDS, maxOwnerBytes: headCharge(one) }, LIVE_MS), 'done');
    same(await logs.append(batch, { ...BOUNDS, maxReplyBytes: full - 1 }, LIVE_MS), 'reply_too_large');
    same(await logs.append(batch, { ...BOUNDS, maxOwnerBytes: full - 1 }, LIVE_MS), 'over_budget');
    same(await readAll(logs, one.id), []);
    const exact = { ...BOUNDS, maxReplyBytes: full, maxOwnerBytes: full };
    same(await logs.append(batch, exact, LIVE_MS), 'done');
    same(await logs.open(two, exact, LIVE_MS), 'over_budget');
    const owned = { ...BOUNDS, maxOwnerBytes: full + headCharge(two) };
    same(await logs.open(two, owned, LIVE_MS), 'done');
    // A small end has room, a large one has to fit.
    const end = (failure: Uint8Array) => ({
      ...endOf(one, 2),
      end: { at: 1, failure, metadata: undefined },
    });
    same(await logs.end(end(new Uint8Array(513)), exact), 'reply_too_large');
    same(await logs.end(end(new Uint8Array(512)), exact), 'done');
    // Other owners have their own.
    same(await logs.open(headOf({ owner: 'principal:bob' }), exact, LIVE_MS), 'done');
  },

  async 'an owner has no more of them than it may, if they are opened at once'({ connectLogs: connect }) {
    const nodes = [connect(), connect(), connect()];
    const opened = await Promise.all(
      Array.from({ length: 12 }, (_, i) =>
        nodes[i % nodes.length]?.open(headOf(), { ...BOUNDS, maxReplies: 5 }, LIVE_MS),
      ),
    );
    same(opened.filter((outcome) => outcome === 'done').length, 5);
    same(opened.filter((outcome) => outcome === 'too_many_replies').length, 7);
    same((await nodes[0]?.list('principal:ada'))?.entries.length, 5);
  },
};
