import { randomBytes } from 'node:crypto';
import { type ClientOptions, type ClientSession, connect, type SessionReset } from '@parlance/client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import {
  type RedisServer,
  redisMissing,
  startRedis,
} from '../../../packages/server/src/engine/testing/redis-server.js';
import type { DurableNodeSetup } from '../cluster/durable-node.js';
import { type CuttingProxy, createCuttingProxy } from '../kit/cutting-proxy.js';
import { MemoryStore } from '../kit/memory-store.js';
import { type DurableNode, startDurableNode } from '../kit/programs.js';

/** Pages with durable sessions that are loaded again, at nodes that live, drain and are killed. */

describe.skipIf(redisMissing !== undefined)(redisMissing ?? 'a page with a durable session', () => {
  let redis: RedisServer;
  let front: CuttingProxy;
  let nodes: DurableNode['process'][];
  let ports: number[];
  let sessions: ClientSession[];
  let store: MemoryStore;
  const secret = randomBytes(24).toString('base64');
  /** Where the next connection goes. */
  let at = 0;

  async function start(): Promise<void> {
    const setup: DurableNodeSetup = { url: redis.url, secret };
    const { process, port } = await startDurableNode(setup);
    ports.push(port);
    nodes.push(process);
  }
  const node = (index: number) => nodes[index] as DurableNode['process'];
  const eventsOf = (index: number) => node(index).call('events');

  /** The document of a page begins. */
  async function load(from = store, options: ClientOptions = {}): Promise<ClientSession> {
    const session = await connect(`ws://127.0.0.1:${front.port}/session`, {
      WebSocket,
      waitForServer: true,
      token: 'ann',
      store: from,
      reconnect: { minDelayMs: 5, maxDelayMs: 50, connectWithinMs: 30_000 },
      ...options,
    });
    sessions.push(session);
    return session;
  }

  /** Says something, and returns the answer. */
  async function say(session: ClientSession, text: string): Promise<string | undefined> {
    await session.send(text);
    for await (const answer of session) return answer.text;
    return undefined;
  }

  beforeEach(async () => {
    redis = await startRedis();
    [nodes, ports, sessions, store, at] = [[], [], [], new MemoryStore(), 0];
    front = await createCuttingProxy(() => ports[at] as number);
  });
  afterEach(async () => {
    for (const session of sessions) void session.close();
    await front[Symbol.asyncDispose]();
    for (const each of nodes) await each.kill();
    await redis[Symbol.asyncDispose]();
  });

  it('continues with it when it is loaded again, and again after its node was killed', async () => {
    await start();
    const first = await load();
    const { id } = first;
    expect(await say(first, 'one')).toBe('1: one');
    await first.flush();
    await first.detach();

    const second = await load();
    expect([second.id, second.isRebuilt]).toEqual([id, true]);
    expect(await say(second, 'two')).toBe('2: two');
    await second.flush();
    await second.detach();
    await node(0).kill();

    await start();
    at = 1;
    const third = await load();
    expect([third.id, third.isRebuilt]).toEqual([id, true]);
    expect(await say(third, 'three')).toBe('3: three');
    expect(await node(1).call('seen')).toEqual(['began with 2, durable true, moved true', 'three #3']);
    expect(await eventsOf(1)).toMatchObject({ 'session.taken_over': 1, 'session.taken_up': 1 });
  });

  it('gets what was said while it was loaded, and loses what its node had not handled, if that is killed', async () => {
    await start();
    const first = await load();
    const { id } = first;
    expect(await say(first, 'one')).toBe('1: one');
    await first.flush();
    await first.send('leave unhandled');
    await expect.poll(() => node(0).call('seen')).toContain('leave unhandled #2');
    await first.detach();
    await node(0).call('send', 'while it was away');
    await node(0).kill();
    await start();
    at = 1;
    const second = await load();
    expect(second.id).toBe(id);
    const heard: string[] = [];
    void (async () => {
      for await (const { text } of second) heard.push(text);
    })().catch(() => {});
    await expect.poll(() => heard).toEqual(['while it was away']);
    await second.send('two');
    await expect.poll(() => heard).toEqual(['while it was away', '2: two']);
    // The number of the lost message is not used again.
    expect((await node(1).call('seen')).slice(1)).toEqual(['two #3']);
    expect(await eventsOf(1)).toMatchObject({ 'session.warning': 1 });
  });

  it('leaves unread messages to an application that lives', async () => {
    await start();
    const first = await load();
    void (async () => {
      for (const text of ['one', 'two', 'three']) await first.send(text);
    })();
    await expect.poll(() => node(0).call('seen')).toContain('three #3');
    await first.detach();
    const second = await load();
    await second.send('four');
    await expect
      .poll(async () => (await node(0).call('seen')).slice(1))
      .toEqual(['one #1', 'two #2', 'three #3', 'four #4']);
  });

  it('is told which of its requests have ended with it, if its node lives or is killed', async () => {
    await start();
    const first = await load();
    const reading = (session: ClientSession, text: string) => {
      const reply = session.stream(text, { metadata: { parts: 1_000, again: true } });
      void (async () => {
        for await (const _part of reply);
      })().catch(() => {});
      return reply;
    };
    reading(first, 'long');
    await expect.poll(async () => (await node(0).call('calls'))['long']).toBe(1);
    await first.flush();
    await first.detach();
    const resets: SessionReset[] = [];
    const second = await load();
    second.on('reset', (reset) => resets.push(reset));
    await expect.poll(() => resets).toMatchObject([{ code: 'reloaded', unknown: [{ kind: 'request' }] }]);
    await expect.poll(() => node(0).call('aborts')).toEqual(['interrupted']);

    reading(second, 'longer');
    await expect.poll(async () => (await node(0).call('calls'))['longer']).toBe(1);
    await second.detach();
    await node(0).kill();
    await start();
    at = 1;
    const third = await load();
    third.on('reset', (reset) => resets.push(reset));
    await expect.poll(() => resets.length).toBe(2);
    expect(resets[1]).toMatchObject({ code: 'reloaded', unknown: [{ kind: 'request' }] });
    expect(await node(1).call('calls')).toEqual({});
    expect((await third.request('short', { metadata: { parts: 1 } })).text).toBe('0@1 ');
  });

  it('continues with it when it is loaded again during a drain', async () => {
    await start();
    await start();
    const first = await load();
    const { id } = first;
    expect(await say(first, 'one')).toBe('1: one');
    await first.flush();
    const drained = node(0).call('drain', 3_000);
    await first.detach();
    at = 1;
    const second = await load();
    expect([second.id, second.isRebuilt]).toEqual([id, true]);
    expect(await say(second, 'two')).toBe('2: two');
    await drained;
    expect(second.state).toBe('established');
  });

  it('is one page: of two that take it up, one continues and the other one begins anew', async () => {
    await start();
    const first = await load();
    const { id } = first;
    expect(await say(first, 'one')).toBe('1: one');
    await first.flush();
    await first.detach();
    const twins = await Promise.all([load(store.copy()), load(store.copy())]);
    expect(twins.filter((twin) => twin.id === id)).toHaveLength(1);
    for (const [i, twin] of twins.entries()) {
      const count = twin.id === id ? 2 : 1;
      expect(await say(twin, `twin ${i}`)).toBe(`${count}: twin ${i}`);
    }
  });
});
