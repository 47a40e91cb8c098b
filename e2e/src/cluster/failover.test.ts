import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { type ClientSession, connect } from '@parlance/client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import {
  type RedisServer,
  redisMissing,
  startRedis,
} from '../../../packages/server/src/engine/testing/redis-server.js';
import { type CuttingProxy, createCuttingProxy } from '../kit/cutting-proxy.js';
import { type DurableNode, startDurableNode } from '../kit/programs.js';
import type { DurableNodeSetup } from './durable-node.js';

/** A primary whose replica lags, is promoted, and takes its address. */

type Confirm = 'primary' | 'replica';

describe.skipIf(redisMissing !== undefined)(redisMissing ?? 'a failover to a replica that lags', () => {
  let primary: RedisServer;
  let replica: RedisServer;
  /** From the replica to the primary. */
  let replication: CuttingProxy;
  /** The address that nodes know. */
  let address: CuttingProxy;
  let front: CuttingProxy;
  let nodes: DurableNode[];
  let session: ClientSession;
  /** The messages and events that the client has received, in order. */
  let heard: string[];
  let at = 0;

  const nodeAt = (index: number) => nodes[index] as DurableNode;
  const portOf = ({ url }: RedisServer) => Number(new URL(url).port);

  async function until(isTrue: () => boolean | Promise<boolean>): Promise<void> {
    while (!(await isTrue())) await pause(10);
  }

  async function start(confirm: Confirm): Promise<void> {
    const secret = 'a secret of the nodes of this test';
    const url = `redis://127.0.0.1:${address.port}`;
    const setup: DurableNodeSetup = { url, secret, durability: { confirm } };
    nodes.push(await startDurableNode(setup));
  }

  async function begin(confirm: Confirm): Promise<void> {
    await Promise.all([start(confirm), start(confirm)]);
    session = await connect(`ws://127.0.0.1:${front.port}/session`, {
      WebSocket,
      waitForServer: true,
      token: randomBytes(8).toString('hex'),
      reconnect: { minDelayMs: 20, maxDelayMs: 200 },
    });
    // Of this test, as the session ends later.
    const own = heard;
    session.on('reset', ({ code, notSent, unknown }) =>
      own.push(`reset ${code}, ${notSent.length + unknown.length} unconfirmed`),
    );
    void (async () => {
      for await (const message of session) own.push(message.text);
    })().catch(() => {});
  }

  /** Sends messages and waits for their answers, and that they are acknowledged. */
  async function talk(...texts: readonly string[]): Promise<void> {
    for (const text of texts) {
      const { length } = heard;
      await session.send(text);
      await until(() => heard.length > length);
    }
    await session.flush();
  }

  /** The replica hears nothing from now on. */
  async function lag(): Promise<void> {
    const offset = async ({ client }: RedisServer) =>
      /(?:slave_repl_offset|master_repl_offset):(\d+)/.exec(await client.info('replication'))?.[1];
    await until(async () => (await offset(primary)) === (await offset(replica)));
    replication.freeze();
    replication.swallow(true);
  }

  /** The primary dies, and the first node too if it is to. */
  async function failOver(withNode: boolean): Promise<void> {
    at = withNode ? 1 : 0;
    if (withNode) await nodeAt(0).process.kill();
    await primary.kill();
    await replica.client.replicaof('NO', 'ONE');
    address.redirect(portOf(replica));
    address.cut();
  }

  const seenBy = (index: number) => nodeAt(index).process.call('seen');
  const eventsOf = async (index: number): Promise<Readonly<Record<string, number>>> =>
    await nodeAt(index).process.call('events');

  beforeEach(async () => {
    [nodes, heard, at] = [[], [], 0];
    [primary, replica] = await Promise.all([startRedis(), startRedis()]);
    replication = await createCuttingProxy(portOf(primary));
    await replica.client.replicaof('127.0.0.1', String(replication.port));
    await until(async () => /master_link_status:up/.test(await replica.client.info('replication')));
    address = await createCuttingProxy(portOf(primary));
    front = await createCuttingProxy(() => nodeAt(at).port);
  });

  afterEach(async () => {
    void session.close();
    await front[Symbol.asyncDispose]();
    for (const { process } of nodes) await process.kill();
    for (const each of [address, replication, primary, replica]) await each[Symbol.asyncDispose]();
  });

  it('is told to the client before anything comes again', async () => {
    await begin('primary');
    await talk('one', 'two');
    await lag();
    await talk('three', 'four');
    expect(heard).toEqual(['1: one', '2: two', '3: three', '4: four']);
    // One message is under way.
    await session.send('leave unhandled');
    await until(async () => (await seenBy(0)).at(-1) === 'leave unhandled #5');
    await failOver(true);
    await until(async () => (await seenBy(1)).length > 1);
    // An acknowledged message does not come again, and its effect on the state is gone; the handler knows repeated ones.
    expect(await seenBy(1)).toEqual(['began with 2, durable true, moved true', 'leave unhandled #5 again']);
    expect(heard.slice(4)).toEqual(['reset record_behind, 0 unconfirmed']);
    expect(await eventsOf(1)).toMatchObject({ 'record.lost': 1, 'session.taken_over': 1 });
    // The next connection continues, and is not notified again.
    front.cut();
    await until(() => session.state === 'suspended');
    await until(() => session.state === 'established');
    await pause(100);
    expect(heard).toHaveLength(5);
  });

  it('keeps the order of answers between what is told', async () => {
    await begin('primary');
    await talk('one');
    await lag();
    await talk('two', 'three');
    await failOver(true);
    await talk('four');
    expect(heard).toEqual(['1: one', '2: two', '3: three', 'reset record_behind, 0 unconfirmed', '2: four']);
  });

  it('is not noticed if the node lives, which records everything again', async () => {
    await begin('primary');
    await talk('one');
    await lag();
    await talk('two', 'three');
    await failOver(false);
    await talk('four');
    expect(heard).toEqual(['1: one', '2: two', '3: three', '4: four']);
    expect(await eventsOf(0)).toMatchObject({ 'record.behind': 1 });
    await session.flush();
    at = 1;
    await nodeAt(0).process.kill();
    await talk('five');
    expect(heard.slice(4)).toEqual(['5: five']);
  });

  it('loses nothing that was told if a replica has to confirm it', async () => {
    await begin('replica');
    await talk('one', 'two');
    await lag();
    await session.send('three');
    // Neither told nor lost: the message is still the client's.
    await until(async () => (await seenBy(0)).at(-1) === 'three #3');
    await pause(1_000);
    expect(heard).toEqual(['1: one', '2: two']);
    await failOver(true);
    // The one that was promoted gets a replica of its own.
    await primary.restart();
    await primary.client.replicaof('127.0.0.1', String(portOf(replica)));
    await until(() => heard.length > 2);
    expect(heard).toEqual(['1: one', '2: two', '3: three']);
    expect(await seenBy(1)).toEqual([
      'began with 2, durable true, moved true',
      expect.stringMatching(/^three #3 again$/),
    ]);
  });
});
