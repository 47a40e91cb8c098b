import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { type ClientOptions, type ClientSession, connect } from '@parlance/client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { redis as redisEngine } from '../../../packages/server/src/engine/redis.js';
import { patient } from '../../../packages/server/src/engine/suite/world.js';
import {
  type RedisServer,
  redisMissing,
  startRedis,
} from '../../../packages/server/src/engine/testing/redis-server.js';
import type { DurableNodeSetup } from '../cluster/durable-node.js';
import { type CuttingProxy, createCuttingProxy } from '../kit/cutting-proxy.js';
import { type DurableNode, startDurableNode } from '../kit/programs.js';

/** Durable sessions on processes that are killed and stopped. */

describe.skipIf(redisMissing !== undefined)(redisMissing ?? 'durable sessions', () => {
  let redis: RedisServer;
  let front: CuttingProxy;
  let nodes: DurableNode[];
  let sessions: ClientSession[];
  const secret = randomBytes(24).toString('base64');
  /** Where the next connection goes. */
  let at = 0;

  async function start(rest: Partial<DurableNodeSetup> = {}): Promise<DurableNode> {
    const setup: DurableNodeSetup = { url: redis.url, secret, ...rest };
    const node = await startDurableNode(setup);
    nodes.push(node);
    return node;
  }

  const nodeAt = (index: number): DurableNode => nodes[index] as DurableNode;

  async function dial(options: ClientOptions = {}): Promise<ClientSession> {
    const session = await connect(`ws://127.0.0.1:${front.port}/session`, {
      WebSocket,
      waitForServer: true,
      token: 'ann',
      reconnect: { minDelayMs: 5, maxDelayMs: 50 },
      ...options,
    });
    sessions.push(session);
    return session;
  }

  beforeEach(async () => {
    redis = await startRedis();
    nodes = [];
    sessions = [];
    at = 0;
    front = await createCuttingProxy(() => nodeAt(at).port);
  });

  afterEach(async () => {
    // Their server is about to be killed.
    for (const session of sessions) void session.close();
    await front[Symbol.asyncDispose]();
    for (const { process } of nodes) {
      if (process.end === undefined) globalThis.process.kill(process.pid, 'SIGCONT');
      await process.kill();
    }
    await redis[Symbol.asyncDispose]();
  });

  it.each([
    ['', undefined],
    [', sealed', { key: randomBytes(32).toString('base64') }],
  ])('continues in a process that starts after the death of the one before%s', async (_, seal) => {
    await start({ seal });
    const session = await dial();
    const replies = session[Symbol.asyncIterator]();
    await session.send('one');
    expect((await replies.next()).value?.text).toBe('1: one');
    await session.flush();
    const { id } = session;
    await nodeAt(0).process.kill();
    while (session.state !== 'suspended') await pause(5);
    await session.send('two');
    await start({ seal });
    at = 1;
    expect((await replies.next()).value?.text).toBe('2: two');
    expect(session.id).toBe(id);
    expect(await nodeAt(1).process.call('seen')).toEqual([
      'began with 1, durable true, moved true',
      'two #2',
    ]);
    expect(await nodeAt(1).process.call('events')).toMatchObject({ 'session.taken_over': 1 });
  });

  /** Some nodes, and a session at the first one. */
  async function begin(count: number, options: ClientOptions = {}): Promise<ClientSession> {
    await Promise.all(Array.from({ length: count }, start));
    return await dial(options);
  }

  /** Claims a session for the node that has begun session `id`, which is not told. */
  async function claim(sessionId: string, id: string): Promise<void> {
    const link = patient(redisEngine({ url: redis.url }).connect());
    try {
      const { owner = '', epoch = 0 } = (await link.findSession(sessionId)) ?? {};
      const to = id.slice('sess_'.length, 'sess_'.length + owner.length);
      expect(await link.claimSession(sessionId, { from: owner, epoch, to, ttlMs: 60_000 })).toBeDefined();
    } finally {
      await link.close();
    }
  }

  async function until(isTrue: () => boolean | Promise<boolean>): Promise<void> {
    while (!(await isTrue())) await pause(5);
  }

  const sum = async (of: (node: DurableNode) => Promise<Readonly<Record<string, number>>>, name: string) => {
    let total = 0;
    for (const node of nodes) if (node.process.end === undefined) total += (await of(node))[name] ?? 0;
    return total;
  };
  const calls = (text: string) => sum(({ process }) => process.call('calls'), text);

  /** Reads a reply. Calls `after` when some parts have come. */
  async function read(
    reply: AsyncIterable<{ readonly text: string }>,
    after: () => Promise<void>,
  ): Promise<{ text: string; error: unknown }> {
    let text = '';
    let parts = 0;
    try {
      for await (const part of reply) {
        text += part.text;
        if (++parts === 5) await after();
      }
    } catch (error) {
      return { text, error };
    }
    return { text, error: undefined };
  }

  const kill = async () => {
    at = 1;
    await nodeAt(0).process.kill();
  };

  it('ends a reply of a killed node after its recorded parts, and does not call its handler again', async () => {
    const session = await begin(2);
    const reply = session.stream('count', { metadata: { parts: 1_000 } });
    const { text, error } = await read(reply, kill);
    expect(error).toMatchObject({ code: 'interrupted', retryable: true });
    const parts = text.trim().split(' ');
    expect(parts).toEqual(parts.map((_part, i) => `${i}@1`));
    expect(parts.length).toBeGreaterThanOrEqual(5);
    expect(await calls('count')).toBe(0);
    expect((await session.request('after')).text).toBe('0@1 ');
  });

  it('continues a reply if its handler has asked for that, also after the second death', async () => {
    const session = await begin(3);
    let killed = 0;
    const reply = session.stream('count', { metadata: { parts: 60, again: true } });
    let text = '';
    for await (const part of reply) {
      text += part.text;
      const isDue = text.split(' ').length > 15 * (killed + 1) && killed < 2;
      if (!isDue) continue;
      at = killed + 1;
      await nodeAt(killed++).process.kill();
    }
    const parts = text.trim().split(' ');
    expect(parts.map((part) => part.split('@')[0])).toEqual(Array.from({ length: 60 }, (_, i) => `${i}`));
    expect(new Set(parts.map((part) => part.split('@')[1]))).toEqual(new Set(['1', '2', '3']));
    expect(await calls('count')).toBe(1);
  });

  it('delivers a message again that was taken and not handled, and says so', async () => {
    const session = await begin(2);
    await session.send('leave unhandled');
    await until(async () => (await nodeAt(0).process.call('seen')).includes('leave unhandled #1'));
    await kill();
    await until(async () => (await nodeAt(1).process.call('seen')).length > 1);
    expect(await nodeAt(1).process.call('seen')).toEqual([
      'began with 0, durable true, moved true',
      'leave unhandled #1 again',
    ]);
  });

  it('ends in a process that has stood still while another one has taken it over', async () => {
    const session = await begin(2);
    const replies = session[Symbol.asyncIterator]();
    const reply = session.stream('count', { metadata: { parts: 1_000, again: true } });
    let zombie: DurableNode | undefined;
    const reading = read(reply, async () => {
      zombie = nodeAt(0);
      process.kill(zombie.process.pid, 'SIGSTOP');
      at = 1;
      front.cut();
    });
    await until(async () => zombie !== undefined && (await nodeAt(1).process.call('sessions')).length > 0);
    await session.send('here');
    expect((await replies.next()).value?.text).toBe('1: here');
    process.kill(nodeAt(0).process.pid, 'SIGCONT');
    await until(async () => (await nodeAt(0).process.call('sessions')).length === 0);
    expect(await nodeAt(0).process.call('aborts')).toEqual(['fenced']);
    expect(await nodeAt(0).process.call('events')).toMatchObject({ 'session.fenced': 1 });
    reply.cancel();
    const { text } = await reading;
    const parts = text.trim().split(' ');
    expect(parts.map((part) => part.split('@')[0])).toEqual(parts.map((_part, i) => `${i}`));
  });

  it('continues although the record names a node that has claimed it and does not know of it', async () => {
    const session = await begin(3);
    at = 1;
    const { id } = await dial({ token: 'ben' });
    at = 2;
    const replies = session[Symbol.asyncIterator]();
    await session.flush();
    // As if the answer of the engine to that node were lost.
    await claim(session.id, id);
    const before = session.id;
    front.cut();
    await until(() => session.state === 'suspended');
    await session.send('one');
    expect((await replies.next()).value?.text).toBe('1: one');
    expect(session.id).toBe(before);
    expect(await nodeAt(2).process.call('events')).toMatchObject({ 'session.taken_over': 1 });
  });

  it('continues although a claim is executed only when its client has resumed at the old node', async () => {
    const session = await begin(3);
    at = 1;
    const { id } = await dial({ token: 'ben' });
    const replies = session[Symbol.asyncIterator]();
    await session.flush();
    const before = session.id;
    await claim(before, id);
    // The old node is refused the record of this message.
    await session.send('one');
    expect((await replies.next()).value?.text).toBe('1: one');
    expect(session.id).toBe(before);
    expect(await nodeAt(0).process.call('events')).toMatchObject({ 'session.fenced': 1 });
    expect(await nodeAt(1).process.call('events')).toMatchObject({ 'session.taken_over': 1 });
  });

  it('is another one if the engine and its node have forgotten it, and the client is told so', async () => {
    const session = await begin(2);
    const { id } = session;
    const reset = new Promise((resolve) => session.on('reset', resolve));
    await redis.client.flushall();
    await nodeAt(0).process.kill();
    at = 1;
    expect(await reset).toMatchObject({ reason: expect.any(String) });
    await until(() => session.state === 'established');
    expect(session.id).not.toBe(id);
  });

  it('is written again if the engine has forgotten it, and survives its node then', async () => {
    const session = await begin(2);
    const replies = session[Symbol.asyncIterator]();
    const { id } = session;
    await session.send('one');
    expect((await replies.next()).value?.text).toBe('1: one');
    await redis.client.flushall();
    await session.send('two');
    expect((await replies.next()).value?.text).toBe('2: two');
    await session.flush();
    expect(await nodeAt(0).process.call('events')).toMatchObject({ 'record.behind': 1 });
    await nodeAt(0).process.kill();
    at = 1;
    await session.send('three');
    expect((await replies.next()).value?.text).toBe('3: three');
    expect(session.id).toBe(id);
  });

  it('leaves nothing in the engine when it is closed', async () => {
    const session = await begin(1);
    await session.send('one');
    await session.flush();
    const keys = () => redis.client.keys(`*${session.id}*`);
    expect(await keys()).toHaveLength(1);
    await session.close();
    await until(async () => (await keys()).length === 0);
  });

  it('is given up by a node that drains when nothing is under way, and continues at another one', async () => {
    const session = await begin(2);
    const replies = session[Symbol.asyncIterator]();
    const { id } = session;
    await session.send('one');
    expect((await replies.next()).value?.text).toBe('1: one');
    at = 1;
    expect(await nodeAt(0).process.call('drain', 20_000)).toMatchObject({ moved: 1, lost: 0 });
    await session.send('two');
    expect((await replies.next()).value?.text).toBe('2: two');
    expect(session.id).toBe(id);
    const [began, ...messages] = await nodeAt(1).process.call('seen');
    expect(began).toBe('began with 1, durable true, moved true');
    expect(messages).toEqual([expect.stringMatching(/^two #2/)]);
  });

  it('has its handlers called again elsewhere if their node closes, as far as they want that', async () => {
    const session = await begin(2);
    const again = session.stream('again', { metadata: { parts: 40, again: true } });
    const once = session.stream('once', { metadata: { parts: 40 } });
    const reading = read(once, async () => {});
    const { text, error } = await read(again, async () => {
      at = 1;
      await nodeAt(0).process.call('close');
    });
    expect(error).toBe(undefined);
    const parts = text.trim().split(' ');
    expect(parts.map((part) => part.split('@')[0])).toEqual(Array.from({ length: 40 }, (_, i) => `${i}`));
    expect((await reading).error).toMatchObject({ code: 'interrupted' });
    expect(await nodeAt(0).process.call('events')).not.toHaveProperty('session.failed');
  });

  it('keeps the watch of an agent, and others see the agent again', async () => {
    const session = await begin(2, { token: 'ann/one' });
    const other = await dial({ token: 'ann/two' });
    const agents = await session.agents();
    const changes: string[] = [];
    void (async () => {
      for await (const { type, agent } of agents) changes.push(`${agent.id} ${type}`);
    })().catch(() => {});
    await until(() => agents.get('two') !== undefined);
    await kill();
    await until(async () => (await nodeAt(1).process.call('sessions')).length === 2);
    const third = await dial({ token: 'ann/three' });
    await until(() => agents.get('three') !== undefined);
    await third.send('hello', { to: 'one' });
    expect((await session[Symbol.asyncIterator]().next()).value?.text).toBe('hello');
    expect((await other.agents()).get('one')).toMatchObject({ state: 'connected' });
    expect(changes.filter((change) => change.endsWith('left'))).toEqual([]);
  });
});
