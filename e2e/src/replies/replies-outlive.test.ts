import { setTimeout as pause } from 'node:timers/promises';
import { connect, type FollowedReply, type ProtocolError, type Session } from '@parlance/client';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { redisMissing } from '../../../packages/server/src/engine/testing/redis-server.js';
import { type Nodes, startNodes } from '../cluster/nodes.js';

/** Kept replies in Redis, of nodes in processes of their own that are killed and paused while replies are followed. */

const PARTS = 400;
const REPLIES = 5;
/** Parts that the requester may be told before they are recorded. */
const WINDOW = 64;

let nodes: Nodes;
const sessions: Session[] = [];
afterEach(async () => {
  for (const session of sessions.splice(0)) await session.close();
});

async function dialAt(index: number, token = 'user-1'): Promise<Session> {
  nodes.choose(index);
  const session = await connect(nodes.url, {
    WebSocket,
    waitForServer: true,
    token,
    reconnect: { minDelayMs: 5, maxDelayMs: 50 },
    limits: { messagesPerMinute: Infinity, bytesPerSecond: Infinity },
  });
  sessions.push(session);
  return session;
}

const wholeOf = (request: string, parts = PARTS) =>
  Array.from({ length: parts }, (_, i) => `${i}:${request.length}:${request.slice(-8)} `);

interface Asked {
  readonly name: string;
  readonly id: string;
  /** The parts that the requester got. */
  readonly told: string[];
  /** Resolves with whether it was told the end. */
  readonly over: Promise<boolean>;
}

async function ask(session: Session, name: string, parts = PARTS, pauseMs = 4): Promise<Asked> {
  const reply = session.stream(name, {
    metadata: { parts: String(parts), pauseMs: String(pauseMs), keep: name },
  });
  const iterator = reply[Symbol.asyncIterator]();
  const told: string[] = [];
  const first = await iterator.next();
  if (first.done !== true) told.push(first.value.text);
  const over = (async () => {
    for (;;) {
      const next = await iterator.next();
      if (next.done === true) return true;
      told.push(next.value.text);
    }
  })().catch(() => false);
  return { name, id: reply.keptId as string, told, over };
}

interface Reading {
  readonly name: string;
  readonly after: number;
  readonly texts: string[];
  error?: ProtocolError;
}

async function read(reply: FollowedReply, name: string, after: number): Promise<Reading> {
  const reading: Reading = { name, after, texts: [] };
  try {
    for await (const { text } of reply) reading.texts.push(text);
  } catch (error) {
    reading.error = error as ProtocolError;
  }
  return reading;
}

const countAt = async (index: number, event: string): Promise<number> =>
  (await nodes.nodes[index]?.process.call('events'))?.[event] ?? 0;

/** Replies of one node, each followed from different parts on at two others. */
async function start(owner: number, tag: string) {
  const session = await dialAt(owner);
  const asked = await Promise.all(Array.from({ length: REPLIES }, (_, i) => ask(session, `${tag} ${i}`)));
  const readings: Promise<Reading>[] = [];
  for (const at of [0, 1]) {
    const follower = await dialAt(at);
    for (const [i, { id, name }] of asked.entries())
      for (const after of [0, 3 * i]) readings.push(read(follower.follow(id, { after }), name, after));
  }
  return { asked, readings };
}

describe.skipIf(redisMissing !== undefined)(redisMissing ?? 'kept replies in Redis', () => {
  beforeAll(async () => {
    nodes = await startNodes(2);
    for (const index of [0, 1]) while ((await countAt(index, 'node.joined')) < 1) await pause(50);
  });
  afterAll(async () => {
    await nodes[Symbol.asyncDispose]();
  });

  async function add(): Promise<number> {
    const index = nodes.nodes.indexOf(await nodes.add());
    while ((await countAt(index, 'node.joined')) < 2) await pause(50);
    return index;
  }

  it('are followed after kill -9 as far as they are recorded, and the same to everyone', async () => {
    const owner = await add();
    const over = await ask(await dialAt(owner), 'over', 50, 0);
    expect(await over.over).toBe(true);
    const { asked, readings } = await start(owner, 'killed');
    await pause(300);
    await nodes.nodes[owner]?.process.kill();
    const lengths = new Map<string, number>();
    for (const { name, after, texts, error } of await Promise.all(readings)) {
      expect([error?.code, error?.retryable]).toEqual(['interrupted', true]);
      const length = after + texts.length;
      expect(texts).toEqual(wholeOf(name).slice(after, length));
      // Each follower got all recorded parts, whenever it came, unless it asked for parts after the last one.
      if (texts.length === 0 && after > 0) continue;
      expect(lengths.get(name) ?? length).toBe(length);
      lengths.set(name, length);
    }
    for (const { name, told } of asked) {
      expect(lengths.get(name)).toBeLessThan(PARTS);
      expect(lengths.get(name)).toBeGreaterThanOrEqual(told.length - WINDOW);
    }
    for (const at of [0, 1]) {
      const session = await dialAt(at);
      for (const { id, name } of asked) {
        const later = await read(session.follow(name, { after: 7 }), name, 7);
        expect(later.error?.code).toBe('interrupted');
        expect(later.texts).toEqual(wholeOf(name).slice(7, lengths.get(name)));
        expect((await session.replies()).find((each) => each.id === id)).toMatchObject({
          state: 'failed',
          parts: lengths.get(name),
          isOwn: true,
          name,
        });
      }
      // The requester was told the end of this one, so all of it is there.
      expect(await read(session.follow(over.id), 'over', 0)).toEqual({
        name: 'over',
        after: 0,
        texts: wholeOf('over', 50),
      });
      const eve = await dialAt(at, 'user-eve');
      expect((await read(eve.follow(over.id), 'over', 0)).error?.code).toBe('unknown_reply');
    }
    expect((await countAt(0, 'reply.interrupted')) + (await countAt(1, 'reply.interrupted'))).toBe(REPLIES);
  });

  it('of a node that was paused for too long are ended once, and its handlers stop when it is back', async () => {
    const owner = await add();
    const { process: child } = nodes.nodes[owner] as (typeof nodes.nodes)[number];
    const { readings, asked } = await start(owner, 'paused');
    await pause(200);
    process.kill(child.pid as number, 'SIGSTOP');
    const ended = await Promise.all(readings);
    const lengths = new Map(
      ended.filter(({ after }) => after === 0).map(({ name, texts }) => [name, texts.length]),
    );
    for (const { error } of ended) expect(error?.code).toBe('interrupted');
    process.kill(child.pid as number, 'SIGCONT');
    await expect.poll(() => countAt(owner, 'reply.full')).toBe(REPLIES);
    const produced = await child.call('produced');
    await pause(100);
    expect(await child.call('produced')).toBe(produced);
    const session = await dialAt(0);
    for (const { id, name } of asked) {
      const later = await read(session.follow(id), name, 0);
      expect(later.error?.code).toBe('interrupted');
      expect(later.texts).toEqual(wholeOf(name).slice(0, lengths.get(name)));
    }
    await child.kill();
  });

  it('stay where they are when their node drains, and running ones are followed until they end', async () => {
    const owner = await add();
    const over = await ask(await dialAt(owner), 'early', 20, 0);
    expect(await over.over).toBe(true);
    const { readings } = await start(owner, 'drained');
    const extra = nodes.nodes[owner] as (typeof nodes.nodes)[number];
    await extra.process.call('drain', 20_000);
    await extra.process.call('close');
    await extra.process.kill();
    for (const { name, after, texts, error } of await Promise.all(readings)) {
      expect(error).toBeUndefined();
      expect(texts).toEqual(wholeOf(name).slice(after));
    }
    const session = await dialAt(1);
    expect((await read(session.follow('early'), 'early', 0)).texts).toEqual(wholeOf('early', 20));
  });

  it('are stopped at the node that writes them, whichever is asked', async () => {
    const owner = await add();
    const { id, over } = await ask(await dialAt(owner), 'endless', 100_000);
    const session = await dialAt(0);
    const reply = session.follow(id);
    const reading = read(reply, 'endless', 0);
    await reply.stop();
    expect((await reading).error?.code).toBe('cancelled');
    expect(await over).toBe(false);
    const { process: child } = nodes.nodes[owner] as (typeof nodes.nodes)[number];
    const produced = await child.call('produced');
    await pause(100);
    expect(await child.call('produced')).toBe(produced);
    // One that has ended is stopped already.
    await session.follow(id).stop();
    await child.kill();
    await session.follow(id).stop();
  });
});
