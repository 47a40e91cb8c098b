import { resolveLimits } from '@parlance/protocol';
import { SILENT_LOGGER } from '@parlance/protocol/internal';
import { expect, it } from 'vitest';
import { memoryCluster } from '../../engine/memory.js';
import type { GroupMessage } from '../delivery.js';
import { MAX_BYTES, MAX_GROUP_BYTES, SentMessages } from '../sent-messages.js';
import { savedOf } from '../state.js';
import { Interest, MAX_ENTRIES } from './interest.js';
import { listBytes, MAX_LIST, readList } from './messages.js';
import { MAX_WAITING, Outflow, WINDOW } from './outflow.js';
import { type Client, GroupsWorld, settled, watch } from './testing/groups-world.js';

/** The memory of a node for groups and for other nodes, up to its bounds and one more. */

const SAID_OVERHEAD = 128;
const OUT_OVERHEAD = 512;
const messageOf = (size: number): GroupMessage => ({
  ...{ content: '', algorithm: undefined, secret: false, except: undefined, size },
});

it('messages of one group are kept up to a bound, and the last one in any case', () => {
  const said = new SentMessages(() => 0, 1_000);
  const half = MAX_GROUP_BYTES / 2 - SAID_OVERHEAD;
  const numbers = () => said.after('g', 0, 1).kept.map(({ number }) => number);
  said.add('g', messageOf(half));
  said.add('g', messageOf(half));
  expect([said.bytes, numbers()]).toEqual([MAX_GROUP_BYTES, [1, 2]]);
  expect(said.after('g', 0, 1).isIncomplete).toBe(false);
  said.add('other', messageOf(0));
  expect(numbers()).toEqual([1, 2]);
  said.add('g', messageOf(0));
  expect(numbers()).toEqual([2, 4]);
  expect(said.after('g', 0, 1)).toMatchObject({ last: 4, isIncomplete: true });
  said.add('g', messageOf(half + 1));
  expect(numbers()).toEqual([4, 5]);
  said.add('g', messageOf(10 * MAX_GROUP_BYTES));
  expect(numbers()).toEqual([6]);
});

it('messages of all groups are kept up to a bound, and the oldest go first', () => {
  const said = new SentMessages(() => 0, 1_000);
  const count = MAX_BYTES / MAX_GROUP_BYTES;
  for (let i = 0; i < count; i++) said.add(`g${i}`, messageOf(MAX_GROUP_BYTES - SAID_OVERHEAD));
  expect(said.bytes).toBe(MAX_BYTES);
  expect(said.after('g0', 0, 1).kept).toHaveLength(1);
  said.add('one more', messageOf(0));
  expect(said.bytes).toBe(MAX_BYTES - MAX_GROUP_BYTES + SAID_OVERHEAD);
  expect(said.after('g0', 0, 1)).toMatchObject({ kept: [], isIncomplete: true });
  expect(said.after('g1', 0, 1).kept).toHaveLength(1);
});

it('groups of other nodes are known up to a bound, which is logged once until there is room', () => {
  const logged: unknown[] = [];
  const known: string[] = [];
  let now = 0;
  const interest = new Interest({
    ...{ link: memoryCluster().connect(), incarnation: 'aaaaaa', now: () => now, isNodeAlive: () => false },
    others: () => [],
    logger: { ...SILENT_LOGGER, error: (fields) => void logged.push(fields) },
    onNode: (name) => void known.push(name),
  });
  for (let i = 0; i < MAX_ENTRIES; i++) interest.note(`g${i}`, 'bbbbbb');
  expect([known.length, logged]).toEqual([MAX_ENTRIES, []]);
  for (const name of ['one more', 'another']) interest.note(name, 'bbbbbb');
  expect([known.length, [...interest.nodesOf('one more')]]).toEqual([MAX_ENTRIES, []]);
  expect(logged).toEqual([{ event: 'groups.full', most: MAX_ENTRIES }]);
  // A group that is known already takes no more room.
  interest.note('g0', 'bbbbbb');
  expect(logged).toHaveLength(1);
  now = 1e6;
  interest.handleTick();
  interest.note('one more', 'bbbbbb');
  expect([...interest.nodesOf('one more')]).toEqual(['bbbbbb']);
});

it('messages wait for a node up to a bound, and are on their way to it up to another one', () => {
  const sent: unknown[][] = [];
  let handle = (_message: object): void => {};
  const link = {
    attach: (_channel: unknown, { handle: to }: { handle: typeof handle }) => {
      handle = to;
    },
    send: (...args: unknown[]) => void sent.push(args),
  };
  const out = new Outflow('bbbbbb', { to: () => link } as never, 7);
  const says = () => sent.filter(([, type]) => type === 'say').length;
  const quarter = new Uint8Array(WINDOW / 4 - OUT_OVERHEAD);
  const count = MAX_WAITING / (WINDOW / 4);
  for (let i = 0; i < count - 1; i++) out.send('say', [], quarter);
  expect([out.hasRoom(WINDOW / 4), out.hasRoom(WINDOW / 4 + 1)]).toEqual([true, false]);
  out.send('say', [], quarter);
  expect([out.bytes, out.hasRoom(0), out.hasRoom(1)]).toEqual([MAX_WAITING, true, false]);
  expect(says()).toBe(4);
  // Each that the other node has makes room for one.
  handle({ type: 'got', fields: [1] });
  expect([says(), out.hasRoom(WINDOW / 4), out.hasRoom(WINDOW / 4 + 1)]).toEqual([5, true, false]);
});

it('a message of another node that cannot be handed over is logged, and the next one arrives', async () => {
  const world = new GroupsWorld();
  const logged: object[] = [];
  world.logger = { ...SILENT_LOGGER, error: (fields) => void logged.push(fields) };
  const [here, there] = [await world.addNode(), await world.addNode()];
  const client = world.clientOf(there, 'ann');
  there.join(client, 'all');
  await world.calm();
  const { groups } = there;
  const hand = groups.hand.bind(groups);
  let calls = 0;
  groups.hand = (...args) => {
    if (calls++ === 0) throw new RangeError('out of something');
    return hand(...args);
  };
  here.say('all', 'one');
  here.say('all', 'two');
  await world.calm();
  expect(logged).toEqual([
    expect.objectContaining({ event: 'group.failed', group: 'all', node: here.name, err: expect.anything() }),
  ]);
  expect(client.heard).toContain('two');
  await world.stop();
});

it('a node that was dead before a member came that had heard it is forgotten, and its number goes no further', async () => {
  const world = new GroupsWorld();
  const [gone, here] = [await world.addNode(), await world.addNode()];
  const client = world.clientOf(here, 'ann');
  const member = here.join(client, 'all');
  await world.calm();
  gone.say('all', 'one');
  await world.calm();
  world.kill(gone);
  const there = await world.addNode();
  there.take(client, savedOf(member.memberships));
  here.forget(member);
  const marks = () => [...(there.groups.local.get('all')?.received.marks.keys() ?? [])];
  await world.calm();
  expect(marks()).toContain(gone.name);
  for (let i = 0; i < 61; i++) world.tick();
  expect(marks()).not.toContain(gone.name);
  await world.stop();
});

it('a node that had no lease until others have forgotten it asks again who is in a group', async () => {
  const world = new GroupsWorld();
  const [here, there] = [await world.addNode(), await world.addNode()];
  const [ann, bob, eve] = ['ann', 'bob', 'eve'].map((name) => world.clientOf(there, name));
  const leaving = there.join(ann as Client, 'all');
  there.join(bob as Client, 'all');
  const changes = watch(here, 'all');
  const told = () => changes.splice(0).map(({ principal, state }) => `${principal} ${state}`);
  await world.calm();
  expect(told()).toEqual(['ann joined', 'bob joined']);
  // The engine is not reached from here; to this node the other one is there all the time.
  here.isAlive = false;
  for (let i = 0; i < 70; i++) {
    world.tick();
    here.tick();
  }
  there.members.delete(leaving.id);
  there.groups.forget(leaving as never, 'left');
  there.join(eve as Client, 'all');
  await world.calm();
  here.isAlive = true;
  await world.calm();
  expect(told()).toEqual(['eve joined', 'ann left']);
  await world.stop();
});

it('a node that had no lease until others have forgotten it asks again what a member has missed', async () => {
  const world = new GroupsWorld();
  const [here, there] = [await world.addNode(), await world.addNode()];
  const client = world.clientOf(there, 'ann');
  const member = there.join(client, 'all');
  await world.calm();
  there.say('all', 'one');
  await world.calm();
  here.take(client, savedOf(member.memberships));
  there.forget(member);
  await settled();
  for (const dial of world.dialing.splice(0)) dial();
  await settled();
  const asked = world.ends.filter(({ from }) => from === here);
  for (const { pair } of asked) while (pair[0].queue.length > 0) pair[0].deliver();
  there.tick();
  // The question is there, and here it is known to be; its answer is still on its way.
  for (const { pair } of asked) while (pair[1].queue.length > 0) pair[1].deliver();
  world.cutAll(here);
  here.isAlive = false;
  for (let i = 0; i < 70; i++) {
    world.tick();
    here.tick();
  }
  there.say('all', 'two');
  here.isAlive = true;
  await world.calm();
  expect(client.heard).toEqual(['one', 'two']);
  there.say('all', 'three');
  await world.calm();
  expect(client.heard).toEqual(['one', 'two', 'three']);
  await world.stop();
});

it('a page of members that another node has not told when the server closes is waited for no longer', async () => {
  const world = new GroupsWorld();
  const [here, there] = [await world.addNode(), await world.addNode()];
  there.join(world.clientOf(there, 'ann'), 'all');
  await world.calm();
  const reading = here.others.members('all', undefined, 10);
  const failing = expect(reading).rejects.toMatchObject({ code: 'draining' });
  await here.others.close();
  await failing;
  await expect(here.others.members('all', undefined, 10)).rejects.toMatchObject({ code: 'draining' });
  await there.others.close();
});

it('a message that is too large for other nodes has no place, so that none asks for it', async () => {
  const world = new GroupsWorld();
  const [here, there] = [await world.addNode(), await world.addNode()];
  there.join(world.clientOf(there, 'ann'), 'all');
  await world.calm();
  const { maxMessageSize } = resolveLimits();
  const error = expect.objectContaining({ code: 'message_too_large' });
  const unreached = [{ node: there.name, error }];
  expect(here.others.say('all', messageOf(maxMessageSize + 1))).toEqual({
    sequence: undefined,
    elsewhere: { nodes: 0, unreached },
  });
  expect(here.others.waitingBytes).toBe(0);
  expect(here.others.say('all', messageOf(maxMessageSize)).sequence).toMatchObject({
    number: 1,
    previous: 0,
  });
  await world.stop();
});

it('a list is told in messages that fit between nodes, however short those of clients may be', () => {
  const bytes = 128 * 1024;
  const entry = (length: number) => ['x'.repeat(length - 5)];
  const counts = (list: readonly (readonly unknown[])[]) =>
    listBytes(list).map((each) => readList(each, (values) => values).length);
  expect(counts([])).toEqual([0]);
  expect(counts([entry(bytes / 2), entry(bytes / 2), entry(5)])).toEqual([2, 1]);
  expect(counts([entry(bytes / 2), entry(bytes / 2 + 1)])).toEqual([1, 1]);
  expect(counts(Array.from({ length: MAX_LIST + 1 }, () => []))).toEqual([MAX_LIST, 1]);
});
