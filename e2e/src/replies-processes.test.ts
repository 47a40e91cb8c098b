import { connect, type FollowedReply, type ProtocolError, type Session } from '@parlance/client';
import { nodeOfReply } from '@parlance/protocol/internal';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { redisMissing } from '../../packages/server/src/backplane/testing/redis-server.js';
import { type Nodes, startNodes } from './cluster/nodes.js';
import { failure, pause } from './peers.js';

/** Kept replies of nodes in processes of their own, with Redis: cut, killed and drained while they are followed. */

const PARTS = 150;
const REPLIES = 5;

let nodes: Nodes;
const sessions: Session[] = [];
afterEach(async () => {
  for (const session of sessions.splice(0)) await session.close();
});

async function dialAt(index: number, token = 'user-1'): Promise<Session> {
  nodes.choose(index);
  const session = await connect(nodes.url, {
    WebSocket,
    token,
    reconnect: { minDelayMs: 5, maxDelayMs: 50 },
    limits: { messagesPerMinute: Infinity, bytesPerSecond: Infinity },
  });
  sessions.push(session);
  return session;
}

const textOf = (request: string, i: number) => `${i}:${request.length}:${request.slice(-8)} `;
const wholeOf = (request: string) => Array.from({ length: PARTS }, (_, i) => textOf(request, i));

/** Begins a kept reply at a node, without reading it on. */
async function begin(session: Session, name: string, pauseMs = 4): Promise<string> {
  const reply = session.stream(name, {
    metadata: { parts: String(PARTS), pauseMs: String(pauseMs), keep: name },
  });
  const parts = reply[Symbol.asyncIterator]();
  await parts.next();
  (async () => {
    while ((await parts.next()).done !== true);
  })().catch(() => {});
  return reply.keptId as string;
}

interface Reading {
  readonly after: number;
  readonly name: string;
  readonly texts: string[];
  error?: ProtocolError;
}

/** Reads to the end, which may be an error. */
async function read(reply: FollowedReply, name: string, after: number): Promise<Reading> {
  const reading: Reading = { after, name, texts: [] };
  try {
    for await (const { text } of reply) reading.texts.push(text);
  } catch (error) {
    reading.error = error as ProtocolError;
  }
  return reading;
}

const position = () => Math.floor(Math.random() * PARTS * 0.8);
const countAt = async (index: number, event: string) =>
  (await nodes.nodes[index]?.process.call('events'))?.[event] ?? 0;

describe.skipIf(redisMissing !== undefined)(redisMissing ?? 'kept replies of three nodes', () => {
  beforeAll(async () => {
    nodes = await startNodes(3);
    for (const index of [0, 1, 2]) while ((await countAt(index, 'node.joined')) < 2) await pause(50);
  });
  afterAll(async () => {
    await nodes[Symbol.asyncDispose]();
  });

  /** Replies of one node, and followers of all of them at each of some nodes. */
  async function start(owner: number, landings: readonly number[], tag: string) {
    const asking = await dialAt(owner);
    const names = Array.from({ length: REPLIES }, (_, i) => `${tag} ${i}`);
    const ids = await Promise.all(names.map((name) => begin(asking, name)));
    const readings: Promise<Reading>[] = [];
    for (const landing of landings) {
      const session = await dialAt(landing);
      for (const [i, id] of ids.entries()) {
        const after = position();
        readings.push(read(session.follow(id, { after }), names[i] as string, after));
      }
    }
    return { names, ids, readings };
  }

  it('are read byte by byte while the connections between nodes are cut', async () => {
    const { readings } = await start(0, [1, 2], 'cut');
    let isDone = false;
    const all = Promise.all(readings).finally(() => {
      isDone = true;
    });
    for (let i = 0; !isDone && i < 200; i++) {
      await pause(30);
      if (i % 3 === 2) nodes.nodes[0]?.peers.cutAfter(50);
      else nodes.nodes[0]?.peers.cut();
    }
    for (const { name, after, texts, error } of await all) {
      expect(error).toBeUndefined();
      expect(texts).toEqual(wholeOf(name).slice(after));
    }
  });

  it('ask the engine for nothing while they are read', async () => {
    const asking = await dialAt(0);
    const id = await begin(asking, 'quiet', 1);
    const session = await dialAt(1);
    await nodes.redis.client.config('RESETSTAT');
    const { texts } = await read(session.follow(id), 'quiet', 0);
    expect(texts).toEqual(wholeOf('quiet'));
    const stats = await nodes.redis.client.info('commandstats');
    expect(stats).not.toMatch(/cmdstat_(get|set):/);
  });

  it('move when their node drains, once each, and are followed without a gap', async () => {
    const extra = await nodes.add();
    const index = nodes.nodes.indexOf(extra);
    for (const at of [0, 1, 2]) await expect.poll(() => countAt(at, 'node.joined')).toBeGreaterThanOrEqual(3);
    await expect.poll(() => countAt(index, 'node.joined')).toBeGreaterThanOrEqual(3);
    const over = await begin(await dialAt(index), 'over', 0);
    const { names, ids, readings } = await start(index, [0, 1, 2], 'drained');
    await nodes.redis.client.config('RESETSTAT');
    await pause(Math.random() * 300);
    await extra.process.call('drain', 20_000);
    await extra.process.call('close');
    await extra.process.kill();
    for (const { name, after, texts, error } of await Promise.all(readings)) {
      expect(error).toBeUndefined();
      expect(texts).toEqual(wholeOf(name).slice(after));
    }
    const sets = /cmdstat_set:calls=(\d+)/.exec(await nodes.redis.client.info('commandstats'))?.[1];
    expect(Number(sets)).toBe(REPLIES + 1);
    for (const at of [0, 1, 2]) {
      const session = await dialAt(at);
      for (const [i, id] of [...ids, over].entries()) {
        const [name, after] = [names[i] ?? 'over', position()];
        expect((await read(session.follow(id, { after }), name, after)).texts).toEqual(
          wholeOf(name).slice(after),
        );
      }
      const eve = await dialAt(at, 'user-eve');
      expect((await failure(eve.follow(over).stop())).code).toBe('unknown_reply');
    }
  });

  it('are interrupted when their node is killed, after all parts that were read', async () => {
    const extra = await nodes.add();
    const index = nodes.nodes.indexOf(extra);
    const { ids, readings } = await start(index, [0, 1], 'killed');
    await pause(200);
    await extra.process.kill();
    for (const { name, after, texts, error } of await Promise.all(readings)) {
      expect(error?.code).toBe('interrupted');
      expect(error?.retryable).toBe(true);
      expect(texts).toEqual(wholeOf(name).slice(after, after + texts.length));
      expect(after + texts.length).toBeLessThan(PARTS);
    }
    const session = await dialAt(2);
    for (const id of ids) expect((await read(session.follow(id), '', 0)).error?.code).toBe('interrupted');
  }, 30_000);

  it('that have moved are found only by the node that has them while the engine is gone', async () => {
    const extra = await nodes.add();
    const index = nodes.nodes.indexOf(extra);
    await expect.poll(() => countAt(index, 'node.joined')).toBeGreaterThanOrEqual(3);
    const asking = await dialAt(index);
    const moved = await begin(asking, 'moved', 0);
    await extra.process.call('drain', 10_000);
    await extra.process.call('close');
    await extra.process.kill();
    const session = await dialAt(0);
    const stays = await begin(await dialAt(1), 'stays', 0);
    const whole = await read(session.follow(moved), 'moved', 0);
    expect(whole.texts).toEqual(wholeOf('moved'));
    const elsewhere: Session[] = [];
    for (const at of [0, 1, 2]) elsewhere.push(await dialAt(at));
    await nodes.redis.kill();
    const codes = await Promise.all(
      elsewhere.map(async (each) => (await read(each.follow(moved), 'moved', 0)).error?.code),
    );
    expect(codes.toSorted()).toEqual(['timeout', 'timeout', undefined]);
    expect((await read(session.follow(stays), 'stays', 0)).texts).toEqual(wholeOf('stays'));
    await nodes.redis.restart();
    await expect.poll(async () => (await read(session.follow(stays), 'stays', 0)).error).toBeUndefined();
  });

  it('wait for a node that is paused, and go on when it is back', async () => {
    const { readings, ids } = await start(0, [1], 'paused');
    await pause(100);
    const owner = nodes.nodes[0]?.process.pid as number;
    const lister = await dialAt(2);
    // Of this node alone: others may be slow, or may have died in an earlier test.
    const event = `replies.unlisted ${nodeOfReply(ids[0] as string)}`;
    const unlisted = await countAt(2, event);
    process.kill(owner, 'SIGSTOP');
    // Its replies are left out, which is logged once.
    const lists = await Promise.all([lister.replies(), lister.replies()]);
    process.kill(owner, 'SIGCONT');
    expect(lists.flat().filter(({ name }) => name?.startsWith('paused'))).toEqual([]);
    expect(await countAt(2, event)).toBe(unlisted + 1);
    await expect
      .poll(async () => (await lister.replies()).filter(({ name }) => name?.startsWith('paused')).length)
      .toBe(REPLIES);
    for (const { name, after, texts, error } of await Promise.all(readings)) {
      expect(error).toBeUndefined();
      expect(texts).toEqual(wholeOf(name).slice(after));
    }
  });
});
