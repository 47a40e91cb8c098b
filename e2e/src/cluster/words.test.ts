import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { type ClientSession, connect, type SessionStore } from '@parlance/client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import {
  type RedisServer,
  redisMissing,
  startRedis,
} from '../../../packages/server/src/engine/testing/redis-server.js';
import { type CuttingProxy, createCuttingProxy } from '../kit/cutting-proxy.js';
import { type DurableNode, startDurableNode } from '../kit/programs.js';

/** A part of an application, whose state of a session goes where the session goes: no message is counted twice, and none is missed. */

const MESSAGES = 80;
const WORDS = 3;

describe.skipIf(redisMissing !== undefined)(redisMissing ?? 'a part that counts words', () => {
  let redis: RedisServer;
  let front: CuttingProxy;
  let nodes: DurableNode[];
  const sessions: ClientSession[] = [];
  const secret = randomBytes(24).toString('base64');
  let entries: Map<string, string>;
  const store: SessionStore = {
    getItem: (key) => entries.get(key) ?? null,
    setItem: (key, value) => void entries.set(key, value),
    removeItem: (key) => void entries.delete(key),
  };
  /** Where the next connection goes. */
  let at = 0;

  beforeEach(async () => {
    redis = await startRedis();
    nodes = await Promise.all([1, 2].map(() => startDurableNode({ url: redis.url, secret })));
    for (const { process } of nodes)
      while ((await process.call('events'))['node.joined'] === undefined) await pause(10);
    at = 0;
    entries = new Map();
    front = await createCuttingProxy(() => nodeAt(at).port);
  });
  afterEach(async () => {
    for (const session of sessions.splice(0)) void session.close();
    await front[Symbol.asyncDispose]();
    for (const { process } of nodes) await process.kill();
    await redis[Symbol.asyncDispose]();
  });

  const nodeAt = (index: number): DurableNode => nodes[index] as DurableNode;

  async function dial(token: string): Promise<ClientSession> {
    const session = await connect(`ws://127.0.0.1:${front.port}/session`, {
      ...{ WebSocket, waitForServer: true, token, store },
      reconnect: { minDelayMs: 5, maxDelayMs: 50, connectWithinMs: 30_000 },
    });
    sessions.push(session);
    return session;
  }

  /** Says many things, and does something to the node meanwhile. Returns the ID of the session and what was answered. */
  async function talk(session: ClientSession, meanwhile: () => Promise<unknown>): Promise<void> {
    let answers = 0;
    const reading = (async () => {
      for await (const _ of session) if (++answers === MESSAGES) return;
    })();
    const sending = (async () => {
      for (let i = 0; i < MESSAGES; i++) {
        await session.send(`this is ${i}`);
        await pause(5);
      }
    })();
    while (answers < 10) await pause(5);
    const done = meanwhile();
    await Promise.all([sending, reading, done]);
  }

  const count = async (session: ClientSession) =>
    Number((await session.request('how many?', { metadata: { what: 'words' } })).text);

  it.each(['plain', 'durable'])(
    'has the same number when a %s session leaves a node that drains',
    async (token) => {
      const session = await dial(token);
      const { id } = session;
      await talk(session, async () => {
        at = 1;
        await nodeAt(0).process.call('drain', 30_000);
      });
      await nodeAt(0).process.kill();
      expect(await count(session)).toBe(MESSAGES * WORDS);
      expect(session.id).toBe(id);
    },
  );

  it.each(['plain', 'durable'])(
    'has the same number when the page of a %s session is loaded again',
    async (token) => {
      const session = await dial(token);
      const { id } = session;
      await talk(session, async () => {});
      await session.detach();
      const again = await dial(token);
      expect(again.id).toBe(id);
      expect(await count(again)).toBe(MESSAGES * WORDS);
      await talk(again, async () => {});
      expect(await count(again)).toBe(2 * MESSAGES * WORDS);
    },
  );

  it('has the same number when the node of a durable session is killed, and its page is loaded again', async () => {
    const session = await dial('durable');
    const { id } = session;
    await talk(session, async () => {
      at = 1;
      await nodeAt(0).process.kill();
    });
    expect(await count(session)).toBe(MESSAGES * WORDS);
    await session.detach();
    const again = await dial('durable');
    expect(again.id).toBe(id);
    await talk(again, async () => {});
    expect(await count(again)).toBe(2 * MESSAGES * WORDS);
  });

  it('does not count a message that its reader has left unfinished when the node was killed', async () => {
    const session = await dial('durable');
    await session.send('leave unhandled');
    while (!(await nodeAt(0).process.call('seen')).includes('leave unhandled #1')) await pause(5);
    expect(await count(session)).toBe(0);
    at = 1;
    await nodeAt(0).process.kill();
    while (!(await nodeAt(1).process.call('seen')).includes('leave unhandled #1 again')) await pause(5);
    expect(await count(session)).toBe(0);
  });
});
