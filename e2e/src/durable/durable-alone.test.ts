import { setTimeout as pause } from 'node:timers/promises';
import { type ClientSession, connect } from '@parlance/client';
import { cluster, createServer, durable, memoryCluster, type Server } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import {
  type RedisServer,
  redisMissing,
  startRedis,
} from '../../../packages/server/src/engine/testing/redis-server.js';
import { MemoryNetwork } from '../../../packages/server/src/kit/network.js';
import { type CuttingProxy, createCuttingProxy } from '../kit/cutting-proxy.js';
import { type DurableNode, startDurableNode } from '../kit/programs.js';

/** Servers with an engine and without nodes, so that no other one reaches them. */

describe('servers without nodes that share an engine', () => {
  const engine = memoryCluster();
  const open: { close(): Promise<unknown> }[] = [];
  const network = new MemoryNetwork();
  /** Takes the place of the server that clients reach. */
  let detach = () => {};
  function reach(server: Server): void {
    detach();
    detach = server.attach(network.http);
    network.cut();
  }
  afterEach(async () => {
    for (const each of open.splice(0)) await each.close();
  });

  function create(events: string[] = [], features = [durable(true, { allowVolatileEngine: true })]): Server {
    const log = ({ event }: Readonly<Record<string, unknown>>) => void events.push(String(event));
    const server = createServer({
      ...{ engine, features, logger: { debug: log, info: log, warn: log, error: log } },
      authenticate: () => ({ principal: 'ann' }),
      async onSession(session) {
        for await (const { text } of session) {
          const count = Number(session.data ?? 0) + 1;
          await session.commit({ data: count, send: [`${count}: ${text}`] });
        }
      },
      async *onRequest(_request, { keep }) {
        yield keep({ name: 'kept' })?.id ?? '';
      },
    });
    open.push(server);
    return server;
  }

  async function dial(): Promise<{ session: ClientSession; answers: AsyncIterator<{ text: string }> }> {
    const session = await connect('ws://127.0.0.1/session', {
      WebSocket: network.WebSocket,
      token: 'ann',
      reconnect: { minDelayMs: 5, maxDelayMs: 50 },
    });
    open.unshift(session);
    return { session, answers: session[Symbol.asyncIterator]() };
  }

  /** Says something, and expects it to be counted once. */
  async function say({ session, answers }: Awaited<ReturnType<typeof dial>>, count: number): Promise<void> {
    await session.send('here');
    expect((await answers.next()).value?.text).toBe(`${count}: here`);
  }

  it('continue, one after the other, with sessions and kept replies, and wait for no lease', async () => {
    const first = create();
    reach(first);
    const client = await dial();
    await say(client, 1);
    const { text: id } = await client.session.request('keep this');
    expect(id).toMatch(/^reply_/);
    await first.close();
    const events: string[] = [];
    const second = create(events);
    reach(second);
    await say(client, 2);
    expect(events).toContain('session.taken_over');
    const parts: string[] = [];
    for await (const { text } of client.session.follow('kept')) parts.push(text);
    expect(parts).toEqual([id]);
  });

  it('leave a session to the one that has it while that lives', async () => {
    const events: string[] = [];
    const [first, second] = [create(), create(events)];
    reach(first);
    const client = await dial();
    await say(client, 1);
    reach(second);
    await expect.poll(() => events.filter((event) => event === 'session.refused').length).toBeGreaterThan(2);
    expect([second.sessions.size, first.sessions.size]).toEqual([0, 1]);
    reach(first);
    await say(client, 2);
  });

  it('are refused beside nodes, and nodes beside them', async () => {
    const features = [durable(true, { allowVolatileEngine: true }), cluster()];
    const alone = create();
    await alone.listen();
    const refused = { code: 'invalid_option', message: expect.stringContaining('lacks the feature nodes') };
    await expect(create([], features).listen()).rejects.toMatchObject(refused);
    await alone.close();
    const node = create([], features);
    await node.listen();
    await expect(create().listen()).rejects.toMatchObject(refused);
    // The refused server has left no lease, which would keep the next one out.
    await node.close();
    await expect(create().listen()).resolves.toBeDefined();
  });

  it('need an engine that keeps replies', () => {
    const refused = expect.objectContaining({ code: 'invalid_option' });
    expect(() => createServer({ engine: { connect: engine.connect } })).toThrow(refused);
  });
});

describe.skipIf(redisMissing !== undefined)(redisMissing ?? 'a process without nodes', () => {
  const nodesOf: DurableNode[] = [];
  const sessions: ClientSession[] = [];
  let redisServer: RedisServer | undefined;
  let front: CuttingProxy | undefined;
  /** Where the next connection goes. */
  let at = 0;
  afterEach(async () => {
    for (const session of sessions.splice(0)) void session.close();
    await front?.[Symbol.asyncDispose]();
    for (const { process: child } of nodesOf.splice(0)) {
      if (child.end === undefined) process.kill(child.pid, 'SIGCONT');
      await child.kill();
    }
    await redisServer?.[Symbol.asyncDispose]();
    at = 0;
  });

  const nodeAt = (index: number): DurableNode => nodesOf[index] as DurableNode;
  const start = async () => {
    redisServer ??= await startRedis();
    nodesOf.push(await startDurableNode({ url: redisServer.url }));
  };

  async function begin() {
    redisServer = undefined;
    await start();
    front = await createCuttingProxy(() => nodeAt(at).port);
    const session = await connect(`ws://127.0.0.1:${front.port}/session`, {
      WebSocket,
      token: 'ann',
      reconnect: { minDelayMs: 5, maxDelayMs: 50, connectWithinMs: 30_000 },
    });
    sessions.push(session);
    const answers: string[] = [];
    void (async () => {
      for await (const { text } of session) answers.push(text);
    })().catch(() => {});
    return { session, answers };
  }

  it('that is killed is followed by the next one on its engine: no body is lost or doubled', async () => {
    const { session, answers } = await begin();
    const texts: string[] = [];
    const reading = (async () => {
      const metadata = { parts: 120, again: true, keep: 'kept' };
      for await (const { text } of session.stream('count', { metadata })) texts.push(text);
    })();
    const sent = Array.from({ length: 60 }, (_, i) => `message ${i}`);
    const sending = (async () => {
      for (const text of sent) {
        await session.send(text);
        await pause(5);
      }
    })();
    while (texts.length < 10 || answers.length < 10) await pause(5);
    await nodeAt(0).process.kill();
    const { id } = session;
    // The client has messages that are not confirmed, and reads a reply that is under way.
    expect(answers.length).toBeLessThan(sent.length);
    expect(texts.length).toBeLessThan(120);
    await start();
    at = 1;
    await Promise.all([reading, sending]);
    await expect.poll(() => answers.length).toBe(sent.length);
    expect(answers).toEqual(sent.map((text, i) => `${i + 1}: ${text}`));
    const numbers = Array.from({ length: 120 }, (_, i) => `${i}`);
    expect(texts.map((text) => text.split('@')[0])).toEqual(numbers);
    expect(new Set(texts.map((text) => text.trim().split('@')[1]))).toEqual(new Set(['1', '2']));
    const kept: string[] = [];
    for await (const { text } of session.follow('kept')) kept.push(text);
    expect(kept).toEqual(texts);
    const counted = await session.request('how many?', { metadata: { what: 'words' } });
    expect(counted.text).toBe(`${2 * sent.length}`);
    expect(session.id).toBe(id);
    expect(await nodeAt(1).process.call('events')).toMatchObject({ 'session.taken_over': 1 });
  });

  it('that stands still loses its sessions to another one when its lease is over, and is told so', async () => {
    const { session, answers } = await begin();
    await session.send('one');
    const reading = (async () => {
      let count = 0;
      for await (const { text } of session.stream('count', { metadata: { parts: 700, again: true } }))
        expect(text.split('@')[0]).toBe(`${count++}`);
      return count;
    })();
    await expect.poll(async () => await nodeAt(0).process.call('told')).toBeGreaterThan(5);
    await expect.poll(() => answers).toEqual(['1: one']);
    await start();
    process.kill(nodeAt(0).process.pid, 'SIGSTOP');
    at = 1;
    front?.cut();
    await session.send('two');
    // It waits for the end of the lease.
    await expect.poll(() => answers).toEqual(['1: one', '2: two']);
    process.kill(nodeAt(0).process.pid, 'SIGCONT');
    await expect.poll(async () => await nodeAt(0).process.call('sessions')).toEqual([]);
    expect(await nodeAt(0).process.call('aborts')).toEqual(['fenced']);
    expect(await reading).toBe(700);
    await session.send('three');
    await expect.poll(() => answers).toEqual(['1: one', '2: two', '3: three']);
  });
});
