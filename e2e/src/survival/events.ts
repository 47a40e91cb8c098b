import { setTimeout as pause } from 'node:timers/promises';
import { startRedis } from '../../../packages/server/src/engine/testing/redis-server.js';
import { createCuttingProxy } from '../cutting-proxy.js';
import { PARTS } from './gate.js';
import type { Event } from './matrix.js';
import { portOf, type World } from './world.js';

/**
 * How each event is made to happen. Replies and messages go a step further when `step` is called, which is after the last turn
 * that the replica of a failover has heard of, and before everything else.
 */
export const HAPPEN: Readonly<Record<Event, (world: World, step: () => Promise<void>) => Promise<void>>> = {
  async cut(world, step) {
    await step();
    world.lead(1);
    for (const { front } of world.devices) front.cut();
  },
  async reload(world, step) {
    await step();
    await Promise.all(world.devices.map((device) => device.reload()));
  },
  async 'second device'(world, step) {
    await step();
    const others = await Promise.all(world.near.map((device) => device.another()));
    world.devices.push(...others);
  },
  async move(world, step) {
    await step();
    const { process, port } = world.nodeAt(0);
    world.lead(1);
    const drained = process.call('drain', 60_000);
    while ((await fetch(`http://127.0.0.1:${port}/readyz`)).status !== 503) await pause(10);
    await world.open(PARTS.all);
    await drained;
    await process.kill();
  },
  async 'drain alone'(world, step) {
    await step();
    const { process } = world.nodeAt(0);
    await process.call('drain', 300);
    await process.call('close');
    await process.kill();
    await world.add();
    world.lead(1);
  },
  async kill(world, step) {
    await step();
    world.lead(1);
    await world.nodeAt(0).process.kill();
  },
  async 'kill alone'(world, step) {
    await step();
    await world.nodeAt(0).process.kill();
    await world.add();
    world.lead(1);
  },
  async 'empty Redis'(world, step) {
    await step();
    await world.redis.kill();
    await world.redis.restart();
  },
  async failover(world, step) {
    const replica = await startRedis();
    const replication = await createCuttingProxy(portOf(world.redis));
    world.alsoClose(replication, replica);
    await replica.client.replicaof('127.0.0.1', String(replication.port));
    const offsets = async () =>
      await Promise.all(
        [world.redis, replica].map(
          async ({ client }) =>
            /(?:slave_repl_offset|master_repl_offset):(\d+)/.exec(await client.info('replication'))?.[1],
        ),
      );
    while (!/master_link_status:up/.test(await replica.client.info('replication'))) await pause(10);
    for (let [of, at] = await offsets(); of !== at; [of, at] = await offsets()) await pause(10);
    replication.freeze();
    replication.swallow(true);
    await step();
    await world.redis.kill();
    await replica.client.replicaof('NO', 'ONE');
    world.address.redirect(portOf(replica));
    world.address.cut();
  },
  async 'silent Redis'(world, step) {
    await step();
    world.silent.silence('all');
  },
};
