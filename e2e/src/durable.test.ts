import { randomBytes } from 'node:crypto';
import { type ClientOptions, type ClientSession, connect } from '@parlance/client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import {
  type RedisServer,
  redisMissing,
  startRedis,
} from '../../packages/server/src/backplane/testing/redis-server.js';
import { type Child, startChild } from '../../scripts/child-process.js';
import type { DurableNodeCommands, DurableNodeSetup } from './cluster/durable-node.js';
import { type CuttingProxy, createCuttingProxy } from './cutting-proxy.js';
import { pause } from './peers.js';

/** Durable sessions on processes that are killed and stopped. */

const FLAGS = ['--import', 'tsx', '--conditions=@parlance/source'];

interface Node {
  readonly process: Child<DurableNodeCommands>;
  readonly port: number;
}

describe.skipIf(redisMissing !== undefined)(redisMissing ?? 'durable sessions', () => {
  let redis: RedisServer;
  let front: CuttingProxy;
  let nodes: Node[];
  let sessions: ClientSession[];
  const secret = randomBytes(24).toString('base64');
  /** Where the next connection goes. */
  let at = 0;

  async function start(): Promise<Node> {
    const setup: DurableNodeSetup = { url: redis.url, secret };
    const file = new URL('./cluster/durable-node.ts', import.meta.url);
    const process = startChild<DurableNodeCommands>(file, [JSON.stringify(setup)], FLAGS);
    const node = { process, port: await process.call('port') };
    while ((await process.call('events'))['node.member'] === undefined) await pause(10);
    nodes.push(node);
    return node;
  }

  const nodeAt = (index: number): Node => nodes[index] as Node;

  async function dial(options: ClientOptions = {}): Promise<ClientSession> {
    const session = await connect(`ws://127.0.0.1:${front.port}/session`, {
      WebSocket,
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

  it('goes on in a process that starts after the death of the one before', async () => {
    await start();
    const session = await dial();
    const replies = session[Symbol.asyncIterator]();
    await session.send('one');
    expect((await replies.next()).value?.text).toBe('1: one');
    await session.flush();
    const { id } = session;
    await nodeAt(0).process.kill();
    while (session.state !== 'suspended') await pause(5);
    await session.send('two');
    await start();
    at = 1;
    expect((await replies.next()).value?.text).toBe('2: two');
    expect(session.id).toBe(id);
    expect(await nodeAt(1).process.call('seen')).toEqual([
      'began with 1, durable true, moved true',
      'two #2',
    ]);
    expect(await nodeAt(1).process.call('events')).toMatchObject({ 'session.taken_over': 1 });
  });
});
