import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import {
  type ClientSession,
  connect,
  type ProtocolError,
  type ReplyStream,
  type Session,
} from '@parlance/client';
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

/** Kept replies of durable sessions, whose handlers are called again when their node has died. */

const PARTS = 150;
/** A test starts up to four processes, beside whatever else the machine does. */
const SLACK = { timeout: 240_000 };

interface Reading {
  readonly texts: string[];
  readonly error: ProtocolError | undefined;
}

async function readAll(
  reply: AsyncIterable<{ readonly text: string }>,
  texts: string[] = [],
): Promise<Reading> {
  try {
    for await (const { text } of reply) texts.push(text);
    return { texts, error: undefined };
  } catch (error) {
    return { texts, error: error as ProtocolError };
  }
}

describe.skipIf(redisMissing !== undefined)(
  redisMissing ?? 'a kept reply whose handler is called again',
  SLACK,
  () => {
    let redis: RedisServer;
    let nodes: DurableNode[];
    let fronts: CuttingProxy[];
    let sessions: ClientSession[];
    let setup: Partial<DurableNodeSetup>;
    const secret = randomBytes(24).toString('base64');

    async function start(): Promise<DurableNode> {
      const own: DurableNodeSetup = { url: redis.url, secret, ...setup };
      const node = await startDurableNode(own);
      nodes.push(node);
      return node;
    }

    /** A client whose connections go to the node that `at` names. */
    async function dial(at: { node: DurableNode }, token = 'ann'): Promise<ClientSession> {
      const front = await createCuttingProxy(() => at.node.port);
      fronts.push(front);
      const session = await connect(`ws://127.0.0.1:${front.port}/session`, {
        WebSocket,
        waitForServer: true,
        token,
        reconnect: { minDelayMs: 5, maxDelayMs: 50 },
      });
      sessions.push(session);
      return session;
    }

    const ask = (session: Session, rest: Record<string, boolean> = {}): ReplyStream =>
      session.stream('ask', { metadata: { again: true, keep: 'chat', parts: PARTS, ...rest } });
    const told = async (texts: readonly string[], count: number) => {
      while (texts.length < count) await pause(5);
    };

    beforeEach(async () => {
      redis = await startRedis();
      [nodes, fronts, sessions] = [[], [], []];
      setup = {};
    });

    afterEach(async () => {
      // Their server is about to be killed.
      for (const session of sessions) void session.close();
      for (const front of fronts) await front[Symbol.asyncDispose]();
      for (const { process } of nodes) {
        if (process.end === undefined) globalThis.process.kill(process.pid, 'SIGCONT');
        await process.kill();
      }
      await redis[Symbol.asyncDispose]();
    });

    /** Every follower has the whole reply of the requester, by name and by ID, from any part on. */
    async function expectWhole(reader: Session, id: string, texts: readonly string[]): Promise<void> {
      expect(texts.map((text) => text.split('@')[0])).toEqual(
        Array.from({ length: PARTS }, (_, i) => `${i}`),
      );
      for (const target of ['chat', id])
        for (const after of [0, 40, PARTS])
          expect(await readAll(reader.follow(target, { after }))).toEqual({
            texts: texts.slice(after),
            error: undefined,
          });
      const listed = (await reader.replies()).filter(({ name }) => name === 'chat');
      expect(listed).toMatchObject([{ id, state: 'complete', parts: PARTS }]);
    }

    it.each([
      ['is killed', undefined],
      ['is killed, sealed', { key: randomBytes(32).toString('base64') }],
    ])('is one reply, also for its followers, if its node %s twice', async (_, seal) => {
      setup = { seal };
      const [a, other, b, c] = [await start(), await start(), await start(), await start()];
      const at = { node: a };
      const session = await dial(at);
      const beside = await dial(at);
      const elsewhere = await dial({ node: other });
      const texts: string[] = [];
      const reply = ask(session);
      const asked = readAll(reply, texts);
      await told(texts, 20);
      const id = reply.keptId as string;
      const followers = [
        readAll(beside.follow('chat')),
        readAll(elsewhere.follow(id, { after: 5 })),
        readAll(elsewhere.follow('chat', { after: 100 })),
      ];
      await told(texts, 30);
      for (const [next, count] of [
        [b, 60],
        [c, 100],
      ] as const) {
        const former = at.node;
        at.node = next;
        await former.process.kill();
        await told(texts, count);
      }
      expect((await asked).error).toBeUndefined();
      expect(texts.some((text) => text.endsWith('@3 '))).toBe(true);
      await expectWhole(elsewhere, id, texts);
      const [first, second, third] = await Promise.all(followers);
      expect(first).toEqual({ texts, error: undefined });
      expect(second).toEqual({ texts: texts.slice(5), error: undefined });
      expect(third).toEqual({ texts: texts.slice(100), error: undefined });
      expect(new Set(await at.node.process.call('kept'))).toEqual(new Set([id]));
    });

    it('continues after all that its followers have, also if its requester was away', async () => {
      const [a, next] = [await start(), await start()];
      const at = { node: a };
      const session = await dial(at);
      const reader = await dial({ node: await start() });
      const texts: string[] = [];
      const reply = ask(session);
      const asked = readAll(reply, texts);
      await told(texts, 20);
      const seen: string[] = [];
      const follower = readAll(reader.follow('chat'), seen);
      fronts[0]?.refuse(true);
      fronts[0]?.cut();
      const before = texts.length;
      await told(seen, before + 40);
      at.node = next;
      await a.process.kill();
      fronts[0]?.refuse(false);
      expect((await asked).error).toBeUndefined();
      await expectWhole(reader, reply.keptId as string, texts);
      expect(await follower).toEqual({ texts, error: undefined });
      // The parts that followers had are the beginning of those that the requester got.
      expect(texts.slice(before, before + 40).every((text) => text.endsWith('@1 '))).toBe(true);
    });

    it('continues in the only node when that starts again', async () => {
      const at = { node: await start() };
      const session = await dial(at);
      const texts: string[] = [];
      const reply = ask(session);
      const asked = readAll(reply, texts);
      await told(texts, 20);
      await at.node.process.kill();
      while (session.state !== 'suspended') await pause(5);
      at.node = await start();
      expect((await asked).error).toBeUndefined();
      await expectWhole(session, reply.keptId as string, texts);
    });

    it('continues elsewhere while its node stands still, and that says nothing more of it', async () => {
      const [a, b] = [await start(), await start()];
      const at = { node: a };
      const session = await dial(at);
      const reader = await dial({ node: b });
      const texts: string[] = [];
      const reply = ask(session);
      const asked = readAll(reply, texts);
      await told(texts, 20);
      const follower = readAll(reader.follow('chat'));
      globalThis.process.kill(a.process.pid, 'SIGSTOP');
      at.node = b;
      fronts[0]?.cut();
      await told(texts, PARTS - 20);
      globalThis.process.kill(a.process.pid, 'SIGCONT');
      expect((await asked).error).toBeUndefined();
      await expectWhole(reader, reply.keptId as string, texts);
      expect(await follower).toEqual({ texts, error: undefined });
    });

    it('continues elsewhere after a drain that gives it up', async () => {
      const [a, b] = [await start(), await start()];
      const at = { node: a };
      const session = await dial(at);
      const reader = await dial({ node: b });
      const texts: string[] = [];
      const reply = ask(session);
      const asked = readAll(reply, texts);
      await told(texts, 20);
      const follower = readAll(reader.follow('chat'));
      at.node = b;
      await a.process.call('drain', 100);
      expect((await asked).error).toBeUndefined();
      await expectWhole(reader, reply.keptId as string, texts);
      expect(await follower).toEqual({ texts, error: undefined });
    });

    it('has all parts in its record also if it was not kept before', async () => {
      const [a, b] = [await start(), await start()];
      const at = { node: a };
      const session = await dial(at);
      const texts: string[] = [];
      const asked = readAll(ask(session, { late: true }), texts);
      await told(texts, 20);
      at.node = b;
      await a.process.kill();
      expect((await asked).error).toBeUndefined();
      const [id] = await b.process.call('kept');
      await expectWhole(session, id as string, texts);
    });

    it("ends after its parts with ifProcessDies('fail')", async () => {
      const [a, b] = [await start(), await start()];
      const at = { node: a };
      const session = await dial(at);
      const reader = await dial({ node: b });
      const texts: string[] = [];
      const reply = ask(session, { again: false });
      const asked = readAll(reply, texts);
      await told(texts, 20);
      const follower = readAll(reader.follow('chat'));
      at.node = b;
      await a.process.kill();
      expect((await asked).error?.code).toBe('interrupted');
      for (const reading of [await follower, await readAll(reader.follow(reply.keptId as string))]) {
        expect(reading.error?.code).toBe('interrupted');
        expect(reading.texts.length).toBeGreaterThanOrEqual(texts.length - 2);
        expect(texts).toEqual(reading.texts.slice(0, texts.length));
      }
    });

    it('can be stopped while it waits for its requester', async () => {
      const [a, b] = [await start(), await start()];
      const at = { node: a };
      const session = await dial(at);
      const reader = await dial({ node: b });
      const texts: string[] = [];
      const asked = readAll(ask(session), texts);
      await told(texts, 20);
      fronts[0]?.refuse(true);
      fronts[0]?.cut();
      await a.process.kill();
      await reader.follow('chat').stop();
      expect((await readAll(reader.follow('chat'))).error?.code).toBe('cancelled');
      at.node = b;
      fronts[0]?.refuse(false);
      expect((await asked).error?.code).toBe('cancelled');
      expect(await b.process.call('calls')).toEqual({});
    });
  },
);
