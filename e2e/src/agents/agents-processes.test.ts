import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { redisMissing } from '../../../packages/server/src/engine/testing/redis-server.js';
import { type Node, type Nodes, startNodes } from '../cluster/nodes.js';
import { faultsOf, missing, Talker } from '../cluster/talkers.js';

/**
 * Two agents of nodes in processes of their own, which write to each other all the time: nothing is doubled or reordered,
 * and each loss was reported, while nodes and Redis are killed and paused.
 */

let nodes: Nodes;
const talkers: Talker[] = [];
afterEach(async () => {
  for (const { session } of talkers.splice(0)) await session.close();
});

describe.skipIf(redisMissing !== undefined)(redisMissing ?? 'two agents of two nodes', () => {
  beforeAll(async () => {
    nodes = await startNodes(2);
  });
  afterAll(async () => {
    await nodes[Symbol.asyncDispose]();
  });

  async function dialAt(index: number, name: string): Promise<Talker> {
    nodes.choose(index);
    const talker = await Talker.dial(nodes.url, name);
    talkers.push(talker);
    return talker;
  }

  /** The two agents, each of which knows the other one. Later connections arrive at the nodes `later`. */
  async function startTalk(at: number, later: readonly number[]): Promise<readonly [Talker, Talker]> {
    const pair = [await dialAt(0, 'ann'), await dialAt(at, 'ben')] as const;
    nodes.choose(...later);
    for (const { session } of pair)
      await expect.poll(async () => (await session.agents()).list.length).toBe(1);
    const [ann, ben] = pair;
    ann.talkTo('ben');
    ben.talkTo('ann');
    await goOn(pair);
    return pair;
  }

  /** Both hear messages again, and each gets whole streams. */
  async function goOn(pair: readonly Talker[]): Promise<void> {
    const before = pair.map(({ life, whole }) => ({ life, heard: life.heard.length, whole }));
    const advanced = () =>
      pair.every(({ life, whole }, i) => {
        const then = before[i];
        const heard = life === then?.life ? then.heard : 0;
        return life.heard.length >= heard + 20 && whole >= (then?.whole ?? 0) + 2;
      });
    await expect.poll(advanced).toBe(true);
  }

  /** Stops the talk and accounts for it. */
  async function settle([ann, ben]: readonly [Talker, Talker]): Promise<void> {
    await Promise.all([ann.stop(), ben.stop()]);
    await expect.poll(() => [...missing(ann, ben), ...missing(ben, ann)]).toEqual([]);
    expect([...faultsOf(ann, ben), ...faultsOf(ben, ann)]).toEqual([]);
  }

  async function addNode(): Promise<readonly [Node, number]> {
    const node = await nodes.add();
    return [node, nodes.nodes.indexOf(node)];
  }

  it('lose nothing while Redis is gone, and when it is back without its data', async () => {
    const pair = await startTalk(1, [0, 1]);
    await nodes.redis.kill();
    await pause(1_500);
    await goOn(pair);
    await nodes.redis.restart();
    await pause(2_000);
    await goOn(pair);
    await settle(pair);
    expect(pair.map(({ reports, failed, lives }) => [reports, failed.size, lives.length])).toEqual([
      [0, 0, 1],
      [0, 0, 1],
    ]);
  });

  it('continue after pauses of a node, and of all nodes', async () => {
    const pair = await startTalk(1, [0, 1]);
    const pids = nodes.nodes.slice(0, 2).map(({ process: { pid } }) => pid);
    for (const paused of [pids.slice(1), pids.slice(0, 1), pids]) {
      for (const pid of paused) process.kill(pid, 'SIGSTOP');
      await pause(700);
      for (const pid of paused) process.kill(pid, 'SIGCONT');
      await goOn(pair);
    }
    await settle(pair);
  });

  it('are told of what was lost when a node is paused for longer than its lease', async () => {
    const pair = await startTalk(1, [0, 1]);
    const { pid } = (nodes.nodes[1] as Node).process;
    process.kill(pid, 'SIGSTOP');
    await pause(9_000);
    process.kill(pid, 'SIGCONT');
    await goOn(pair);
    await settle(pair);
    expect(pair[0].reports).toBeGreaterThan(0);
  });

  it('are told of what was lost when the node of one is killed', async () => {
    const [{ process }, index] = await addNode();
    const pair = await startTalk(index, [0, 1]);
    await process.kill();
    await goOn(pair);
    await settle(pair);
    const [ann, ben] = pair;
    expect([ann.lives.length, ben.lives.length]).toEqual([1, 2]);
    expect(ann.reports).toBeGreaterThan(0);
  });

  it('lose nothing when the node of one drains', async () => {
    const [{ process }, index] = await addNode();
    const pair = await startTalk(index, [0, 1]);
    const { id } = pair[1].session;
    await process.call('drain', 20_000);
    await process.call('close');
    await process.kill();
    await goOn(pair);
    await settle(pair);
    expect(pair[1].session.id).toBe(id);
    expect(pair.map(({ reports, failed, lives }) => [reports, failed.size, lives.length])).toEqual([
      [0, 0, 1],
      [0, 0, 1],
    ]);
  });
});
