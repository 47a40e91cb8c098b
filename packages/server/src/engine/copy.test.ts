import { ProtocolError } from '@parlance/protocol';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { copyEngine } from './copy.js';
import { sealedReplies } from './logs/sealed.js';
import { memoryCluster } from './memory.js';
import { Seal } from './seal/keys.js';
import { BOUNDS, batchOf, endOf, headOf, LIVE_MS, readAll, recordOf } from './suite/log-values.js';
import { ID, writeOf } from './suite/record-values.js';
import { storeTests } from './suite/store.js';
import { type StartedEngine, worldOf } from './suite/world.js';
import { engines, repliesOf } from './testing/engines.js';

/** The suite copies each engine to one of its own kind. These tests copy each kind to each other one. */

const KINDS = ['sqlite', 'redis by URL', 'postgres'] as const;
const missing = KINDS.map((kind) => engines[kind]?.missing).find((why) => why !== undefined);
const WHOLE = 'a copy has all that outlives nodes, as it was';

describe.skipIf(missing !== undefined)(missing ?? 'a copy', () => {
  const started = new Map<string, StartedEngine>();
  beforeAll(async () => {
    for (const kind of KINDS) started.set(kind, (await engines[kind]?.start()) as StartedEngine);
  });
  afterAll(async () => {
    for (const engine of started.values()) await engine.close();
  });

  const pairs = KINDS.flatMap((from) => KINDS.filter((to) => to !== from).map((to) => [from, to] as const));
  it.each(pairs)('from %s to %s', async (from, to) => {
    await using source = worldOf(started.get(from) as StartedEngine, 10_000);
    await using target = worldOf(started.get(to) as StartedEngine, 10_000);
    await storeTests[WHOLE]?.({ ...source, elsewhere: () => target });
  });
});

it('of what is sealed is opened with the key of its server, and not by the one who copies', async () => {
  const [from, to] = [memoryCluster(), memoryCluster()];
  const seal = () => new Seal(new Uint8Array(32).fill(7));
  const written = sealedReplies(repliesOf(from), seal());
  const head = headOf({ name: 'mine', share: '{"with":"ben"}' });
  const records = [recordOf('one'), recordOf('two'), recordOf('three')];
  await written.open({ ...head, by: 'aaaaaa' }, BOUNDS, LIVE_MS);
  await written.append(batchOf(head, [], records.slice(0, 2)), BOUNDS, LIVE_MS);
  await written.claim({ ...head, epoch: 1 }, 'bbbbbb', LIVE_MS);
  await written.append(
    { ...batchOf(head, records.slice(0, 2), records.slice(2)), epoch: 1 },
    BOUNDS,
    LIVE_MS,
  );
  await written.end({ ...endOf(head, 3), epoch: 1 }, BOUNDS);
  await copyEngine(from, to);
  const read = sealedReplies(repliesOf(to), seal());
  expect(await readAll(read, head.id)).toEqual(records);
  expect(await read.named(head.owner, 'mine')).toMatchObject({ id: head.id, principal: 'ada', name: 'mine' });
  expect(Buffer.concat(await readAll(repliesOf(to), head.id)).includes('three')).toBe(false);
});

it('is not made of an engine that tells not all, nor to one, and tells what it has done', async () => {
  const { connectStore: _, ...blind } = memoryCluster();
  const unsupported = (side: string) => ({ name: 'CopyRefused', why: 'unsupported', side });
  await expect(copyEngine(blind, memoryCluster())).rejects.toMatchObject(unsupported('from'));
  await expect(copyEngine(memoryCluster(), blind)).rejects.toMatchObject(unsupported('to'));
  const from = memoryCluster();
  for (let i = 0; i < 3; i++) await from.connect().writeSession(`${ID}${i}`, writeOf(1, { begin: 'b' }));
  const told: number[] = [];
  const counts = await copyEngine(from, memoryCluster(), ({ sessions }) => told.push(sessions));
  expect([told, counts]).toEqual([[1, 2, 3], { sessions: 3, replies: 0, parts: 0, bytes: 18 }]);
});

it('makes a call again whose answer was lost, and has nothing twice', async () => {
  const [from, to] = [memoryCluster(), memoryCluster()];
  await from.connect().writeSession(ID, writeOf(1, { begin: 'b' }));
  let calls = 0;
  const connect = () => {
    const link = to.connect();
    return {
      ...link,
      async writeSession(...args: Parameters<typeof link.writeSession>) {
        const written = await link.writeSession(...args);
        if (calls++ === 0) throw new ProtocolError('timeout', 'the answer was lost');
        return written;
      },
    };
  };
  expect(await copyEngine(from, { ...to, connect })).toMatchObject({ sessions: 1, bytes: 6 });
  expect(calls).toBe(2);
});
