import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { type ClientSession, connect, type Undelivered } from '@parlance/client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import {
  type RedisServer,
  redisMissing,
  startRedis,
} from '../../../packages/server/src/engine/testing/redis-server.js';
import type { DurableNodeSetup } from '../cluster/durable-node.js';
import { type CuttingProxy, createCuttingProxy } from '../kit/cutting-proxy.js';
import { type DurableNode, startDurableNode } from '../kit/programs.js';

/** Messages between agents with durable sessions, whose nodes are killed and drained. */

/** An agent, and the node that its next connection goes to. */
interface Agent {
  session: ClientSession;
  readonly heard: number[];
  /** Those that were marked. */
  readonly again: number[];
  readonly reports: Undelivered[];
  at: number;
}

describe.skipIf(redisMissing !== undefined)(redisMissing ?? 'messages between durable agents', () => {
  let redis: RedisServer;
  let nodes: DurableNode[];
  let fronts: CuttingProxy[];
  let sessions: ClientSession[];
  const secret = randomBytes(24).toString('base64');

  async function start(): Promise<DurableNode> {
    const setup: DurableNodeSetup = { url: redis.url, secret };
    const node = await startDurableNode(setup);
    nodes.push(node);
    return node;
  }

  async function dial(token: string, at: number): Promise<Agent> {
    const front = await createCuttingProxy(() => nodes[agent.at]?.port ?? 0);
    fronts.push(front);
    const agent = { heard: [], again: [], reports: [], at } as Partial<Agent> as Agent;
    const session = await connect(`ws://127.0.0.1:${front.port}/session`, {
      WebSocket,
      waitForServer: true,
      token,
      reconnect: { minDelayMs: 5, maxDelayMs: 50 },
    });
    agent.session = session;
    sessions.push(session);
    session.on('undelivered', (report) => void agent.reports.push(report));
    void (async () => {
      for await (const { from, text, isRedelivered } of session) {
        if (from === undefined) continue;
        agent.heard.push(Number(text));
        if (isRedelivered === true) agent.again.push(Number(text));
      }
    })().catch(() => {});
    return agent;
  }

  beforeEach(async () => {
    redis = await startRedis();
    [nodes, fronts, sessions] = [[], [], []];
    await Promise.all([start(), start(), start()]);
  });

  afterEach(async () => {
    for (const session of sessions) void session.close();
    for (const front of fronts) await front[Symbol.asyncDispose]();
    for (const { process } of nodes) await process.kill();
    await redis[Symbol.asyncDispose]();
  });

  const until = (heard: () => number, count: number) =>
    expect.poll(heard, { timeout: 60_000, interval: 20 }).toBeGreaterThanOrEqual(count);
  const upTo = (count: number) => Array.from({ length: count }, (_, i) => i + 1);

  it('are heard once if their sender is killed while it is busy with an earlier message', async () => {
    const ann = await dial('acme/ann', 0);
    const ben = await dial('acme/ben', 1);
    await expect.poll(async () => (await ann.session.agents()).get('ben')?.id).toBe('ben');
    // Nothing that follows counts as handled.
    await ann.session.send('leave unhandled');
    for (const number of upTo(10)) await ann.session.send(`${number}`, { to: 'ben' });
    await until(() => ben.heard.length, 10);
    ann.at = 2;
    await nodes[0]?.process.kill();
    await ann.session.send('11', { to: 'ben' });
    await until(() => ben.heard.at(-1) as number, 11);
    expect([ben.heard, ben.again, ann.reports]).toEqual([upTo(11), [], []]);
  });

  it('are marked if they come again to a session that does not know their sender, and no later one is', async () => {
    const ann = await dial('acme/ann', 0);
    const first = await dial('acme/ben', 1);
    await expect.poll(async () => (await ann.session.agents()).get('ben')?.id).toBe('ben');
    await ann.session.send('leave unhandled');
    for (const number of upTo(3)) await ann.session.send(`${number}`, { to: 'ben' });
    await until(() => first.heard.length, 3);
    await first.session.close();
    const second = await dial('acme/ben', 1);
    await second.session.agents();
    ann.at = 2;
    await nodes[0]?.process.kill();
    // So that this one is not written before its time.
    while (ann.session.state !== 'suspended') await pause(5);
    await ann.session.send('4', { to: 'ben' });
    await until(() => second.heard.at(-1) ?? 0, 4);
    expect([first.again, second.heard, second.again]).toEqual([[], upTo(4), upTo(3)]);
  });

  const COUNT = 300;

  it.each<[string, number, boolean, (ann: Agent, ben: Agent) => Promise<void>]>([
    [
      'the node of the sender is killed',
      1,
      true,
      async (ann) => {
        ann.at = 2;
        await nodes[0]?.process.kill();
      },
    ],
    [
      'the node of the receiver is killed',
      1,
      false,
      async (_, ben) => {
        ben.at = 2;
        await nodes[1]?.process.kill();
      },
    ],
    [
      'the node of both is killed',
      0,
      false,
      async (ann, ben) => {
        [ann.at, ben.at] = [1, 2];
        await nodes[0]?.process.kill();
      },
    ],
    [
      'the node of the sender drains',
      1,
      true,
      async (ann) => {
        ann.at = 2;
        await nodes[0]?.process.call('drain', 5_000);
      },
    ],
    [
      'the node of the receiver drains',
      1,
      false,
      async (_, ben) => {
        ben.at = 2;
        await nodes[1]?.process.call('drain', 5_000);
      },
    ],
    [
      'the node of both drains',
      0,
      false,
      async (ann, ben) => {
        [ann.at, ben.at] = [1, 2];
        await nodes[0]?.process.call('drain', 5_000);
      },
    ],
  ])('are heard once and in order, and none is reported, if %s', async (_, benAt, isBusy, happen) => {
    const ann = await dial('acme/ann', 0);
    const ben = await dial('acme/ben', benAt);
    await expect.poll(async () => (await ann.session.agents()).get('ben')?.id).toBe('ben');
    // Nothing that follows counts as handled, so that its client says it again.
    if (isBusy) await ann.session.send('leave unhandled');
    const talk = (async () => {
      for (const number of upTo(COUNT)) {
        await ann.session.send(`${number}`, { to: 'ben' });
        // To the server as well, so that messages for others are passed over.
        if (number % 10 === 0) await ann.session.send(`note ${number}`);
        await pause(5);
      }
    })();
    await until(() => ben.heard.length, 50);
    await happen(ann, ben);
    await talk;
    await until(() => ben.heard.at(-1) as number, COUNT);
    await pause(300);
    expect([ben.heard, ben.again, ann.reports]).toEqual([upTo(COUNT), [], []]);
    if (!isBusy) await ann.session.flush();
  });
});
