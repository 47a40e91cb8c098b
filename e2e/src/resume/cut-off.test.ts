import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { type ClientSession, connect, type Message } from '@parlance/client';
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

/** Durable sessions of a process that does not reach Redis any more, while another one does. Each has a proxy of its own before Redis. */

const PARTS = 400;

interface Node extends DurableNode {
  readonly redis: CuttingProxy;
}

describe.skipIf(redisMissing !== undefined)(redisMissing ?? 'a node that does not reach Redis', () => {
  let redis: RedisServer;
  let front: CuttingProxy;
  let nodes: Node[];
  let sessions: ClientSession[];
  let resets: string[];
  const readers = new WeakMap<ClientSession, AsyncIterator<Message>>();
  /** Where the next connection goes; `undefined` for one node after the other. */
  let at: number | undefined;
  let dialed = 0;

  const nodeAt = (index: number): Node => nodes[index] as Node;

  async function start(durability?: DurableNodeSetup['durability']): Promise<void> {
    const proxy = await createCuttingProxy(Number(new URL(redis.url).port));
    const setup: DurableNodeSetup = { url: `redis://127.0.0.1:${proxy.port}`, secret, durability };
    nodes.push({ ...(await startDurableNode(setup)), redis: proxy });
  }

  /** Two nodes that know each other. */
  async function startTwo(durability?: DurableNodeSetup['durability']): Promise<void> {
    await Promise.all([start(durability), start(durability)]);
    for (const node of nodes) await until(async () => (await eventsOf(node))['node.joined'] === 1);
  }

  const secret = randomBytes(24).toString('base64');
  const eventsOf = async ({ process }: Node): Promise<Readonly<Record<string, number>>> =>
    await process.call('events');

  async function dial(token: string): Promise<ClientSession> {
    const session = await connect(`ws://127.0.0.1:${front.port}/session`, {
      WebSocket,
      waitForServer: true,
      token,
      reconnect: { minDelayMs: 20, maxDelayMs: 200 },
    });
    sessions.push(session);
    const told = resets;
    session.on('reset', ({ reason }) => told.push(reason));
    return session;
  }

  async function until(isTrue: () => boolean | Promise<boolean>): Promise<void> {
    while (!(await isTrue())) await pause(10);
  }

  async function ask(session: ClientSession, text: string): Promise<string | undefined> {
    const read = readers.get(session) ?? session[Symbol.asyncIterator]();
    readers.set(session, read);
    await session.send(text);
    return (await read.next()).value?.text;
  }

  /** Nothing passes between a node and Redis any more, and nothing is closed. */
  function cutOff({ redis }: Node): void {
    redis.freeze();
    redis.swallow(true);
  }

  function heal({ redis }: Node): void {
    redis.swallow(false);
    redis.cut();
  }

  async function readyz({ port }: Node): Promise<number> {
    return (await fetch(`http://127.0.0.1:${port}/readyz`)).status;
  }

  async function read(reply: AsyncIterable<{ readonly text: string }>) {
    let text = '';
    try {
      for await (const part of reply) text += part.text;
    } catch (error) {
      return { text, error };
    }
    return { text, error: undefined };
  }
  const numbersIn = (text: string) =>
    text
      .trim()
      .split(' ')
      .map((part) => Number(part.split('@')[0]));
  const first = (count: number) => Array.from({ length: count }, (_, i) => i);

  beforeEach(async () => {
    redis = await startRedis();
    [nodes, sessions, resets, at] = [[], [], [], 0];
    front = await createCuttingProxy(() => nodeAt(at ?? dialed++ % nodes.length).port);
  });

  afterEach(async () => {
    redis.go();
    for (const session of sessions) void session.close();
    await front[Symbol.asyncDispose]();
    for (const { process, redis } of nodes) {
      await process.kill();
      await redis[Symbol.asyncDispose]();
    }
    await redis[Symbol.asyncDispose]();
  });

  it('has its durable sessions continue at one that does, once, and plain ones stay', async () => {
    await startTwo();
    const [a, b] = [nodeAt(0), nodeAt(1)];
    const [talker, asker, plain] = [await dial('ann'), await dial('ben'), await dial('plain')];
    const led = await dial('eve');
    expect(await ask(talker, 'one')).toBe('1: one');
    expect(await ask(led, 'one')).toBe('1: one');
    const again = read(asker.stream('again', { metadata: { parts: PARTS, again: true } }));
    const once = read(asker.stream('once', { metadata: { parts: 10_000 } }));
    await until(async () => (await a.process.call('told')) > 2);
    // All of them are led there by the other node from now on.
    at = 1;
    const { id } = led;
    front.cut();
    await until(async () => (await eventsOf(b))['session.led'] === 4);
    expect([await readyz(a), await readyz(b)]).toEqual([200, 200]);

    cutOff(a);
    at = undefined;
    expect(await ask(talker, 'two')).toBe('2: two');
    expect(await ask(led, 'two')).toBe('2: two');
    expect(led.id).toBe(id);
    expect((await once).error).toMatchObject({ code: 'interrupted' });
    const { text, error } = await again;
    expect(error).toBeUndefined();
    expect(numbersIn(text)).toEqual(first(PARTS));
    // All of that happened elsewhere, and nothing of it continues here.
    expect(new Set(await a.process.call('aborts'))).toEqual(new Set(['fenced']));
    expect((await eventsOf(a))['session.given_up']).toBe(3);
    expect(await a.process.call('sessions')).toEqual([plain.id]);
    expect((await plain.request('still here')).text).toBe('0@1 ');
    expect([await readyz(a), await readyz(b)]).toEqual([503, 200]);
    // It takes no other one, and none back.
    at = 0;
    const refused = dial('new');
    await expect(refused).rejects.toMatchObject({ code: 'rejected', retryable: true });
    front.cut();
    await pause(500);
    expect(await a.process.call('sessions')).toEqual([plain.id]);

    heal(a);
    await until(async () => (await readyz(a)) === 200);
    expect(await ask(talker, 'three')).toBe('3: three');
    expect((await dial('new')).state).toBe('established');
    expect([(await eventsOf(a))['session.taken_over'], (await eventsOf(b))['session.taken_over']]).toEqual([
      undefined,
      3,
    ]);
    expect(resets).toEqual([]);
  });

  it('lets nothing happen twice that Redis has executed without an answer', async () => {
    await startTwo();
    const [a, b] = [nodeAt(0), nodeAt(1)];
    const session = await dial('ann');
    expect(await ask(session, 'one')).toBe('1: one');
    await session.flush();
    a.redis.dropAnswers();
    a.redis.swallow(true);
    at = undefined;
    expect(await ask(session, 'two')).toBe('2: two');
    expect(await ask(session, 'three')).toBe('3: three');
    expect(await b.process.call('seen')).toEqual([
      'began with 2, durable true, moved true',
      expect.stringMatching(/^three #3/),
    ]);
    // Late commands of the node to Redis do not harm the session.
    heal(a);
    await until(async () => (await readyz(a)) === 200);
    expect(await ask(session, 'four')).toBe('4: four');
    expect(resets).toEqual([]);
  });

  it('loses nothing if it drains at the same time', async () => {
    await startTwo();
    const [a] = [nodeAt(0)];
    const [idle, asker] = [await dial('ann'), await dial('ben')];
    expect(await ask(idle, 'one')).toBe('1: one');
    const again = read(asker.stream('again', { metadata: { parts: PARTS, again: true } }));
    // If parts were told, the record has them, and says that the handler may be called again.
    await until(async () => (await a.process.call('told')) > 2);
    cutOff(a);
    at = undefined;
    const drained = a.process.call('drain', 20_000);
    expect(await ask(idle, 'two')).toBe('2: two');
    const { text, error } = await again;
    expect([error, numbersIn(text)]).toEqual([undefined, first(PARTS)]);
    heal(a);
    await drained;
    await a.process.call('close');
    at = 1;
    expect(await ask(idle, 'three')).toBe('3: three');
    expect(resets).toEqual([]);
  });

  it('keeps its sessions, and their handlers, while no other node reaches it', async () => {
    await startTwo();
    const session = await dial('ann');
    expect(await ask(session, 'one')).toBe('1: one');
    const once = read(session.stream('once', { metadata: { parts: PARTS } }));
    await until(async () => (await nodeAt(0).process.call('calls'))['once'] === 1);
    redis.pause();
    // More than a lease, and than it takes to find out.
    await pause(9_000);
    const answered = ask(session, 'two');
    redis.go();
    expect(await answered).toBe('2: two');
    const { text, error } = await once;
    expect([error, numbersIn(text)]).toEqual([undefined, first(PARTS)]);
    for (const node of nodes) {
      const events = await eventsOf(node);
      expect([events['node.cut_off'], events['session.given_up'], events['session.taken_over']]).toEqual([
        undefined,
        undefined,
        undefined,
      ]);
    }
    expect(resets).toEqual([]);
  });

  it('keeps sessions that continue without Redis', async () => {
    const durability = { onUnavailable: 'degrade', unavailableAfterMs: 1_000 } as const;
    await startTwo(durability);
    const session = await dial('ann');
    expect(await ask(session, 'one')).toBe('1: one');
    cutOff(nodeAt(0));
    expect(await ask(session, 'two')).toBe('2: two');
    await until(async () => (await eventsOf(nodeAt(0)))['node.cut_off'] === 1);
    expect(await ask(session, 'three')).toBe('3: three');
    expect(await nodeAt(0).process.call('sessions')).toEqual([session.id]);
    heal(nodeAt(0));
    await until(async () => (await eventsOf(nodeAt(0)))['engine.answered'] !== undefined);
    expect(await ask(session, 'four')).toBe('4: four');
    expect(resets).toEqual([]);
  });
});
