import { setTimeout as pause } from 'node:timers/promises';
import { LEASE_MS } from '../../../packages/server/src/cluster/membership.js';
import { PARTS } from './gate.js';
import type { Event } from './matrix.js';
import type { Store } from './stores.js';
import type { Crowd } from './world.js';

/**
 * How each event is made to happen. Replies and messages go a step further when `step` is called, which is after the last turn
 * that the replica of a failover has heard of, and before everything else.
 */
export const HAPPEN: Readonly<Record<Event, (crowd: Crowd, step: () => Promise<void>) => Promise<void>>> = {
  async cut(crowd, step) {
    await step();
    crowd.lead(1);
    for (const { front } of crowd.devices) front.cut();
  },
  async reload({ devices }, step) {
    await step();
    await Promise.all(devices.map((device) => device.reload()));
  },
  async 'second device'({ near, devices }, step) {
    await step();
    const others = await Promise.all(near.map((device) => device.another()));
    devices.push(...others);
  },
  async move(crowd, step) {
    await step();
    const { world } = crowd;
    const node = world.nodeAt(0);
    crowd.lead(1);
    const drained = node.process.call('drain', { at: node.at, timeoutMs: 60_000 });
    while ((await fetch(`http://127.0.0.1:${node.port}/readyz`)).status !== 503) await pause(10);
    await world.open(PARTS.all);
    await drained;
    await world.end(node);
  },
  async 'drain alone'(crowd, step) {
    await step();
    const { process, at } = crowd.world.nodeAt(0);
    await process.call('drain', { at, timeoutMs: 300 });
    await process.call('close', at);
    await process.kill();
    await crowd.world.add();
    crowd.lead(1);
  },
  async kill(crowd, step) {
    await step();
    crowd.lead(1);
    await crowd.world.nodeAt(0).process.kill();
  },
  'kill alone': killAlone,
  async 'kill and knock'(crowd, step) {
    await step();
    const { process, port } = crowd.world.nodeAt(0);
    await process.kill();
    // Clients that come earlier are told to come again.
    await pause(LEASE_MS);
    await crowd.world.add(1, port);
    crowd.lead(1);
  },
  async 'lost file'(crowd, step) {
    await killAlone(crowd, step, () => does(crowd, 'empty')());
  },
  async 'empty server'(crowd, step) {
    await step();
    await does(crowd, 'empty')();
  },
  async failover(crowd, step) {
    await does(crowd, 'failOver')(step);
  },
  async 'silent server'(crowd, step) {
    await step();
    does(crowd, 'silence')();
  },
  async 'full disk'(crowd, step) {
    await step();
    const relieve = await does(crowd, 'fill')();
    const { world } = crowd;
    await world.open(PARTS.all);
    // After 5 s, replies would be kept no longer.
    while ((await world.logged('replies.stalled')) === 0) await pause(10);
    relieve();
    while ((await world.logged('replies.back')) === 0) await pause(10);
  },
};

/** @param meanwhile what happens before it is started again. */
async function killAlone(
  crowd: Crowd,
  step: () => Promise<void>,
  meanwhile = async (): Promise<void> => {},
): Promise<void> {
  await step();
  await crowd.world.nodeAt(0).process.kill();
  await meanwhile();
  await crowd.world.add();
  crowd.lead(1);
}

/** @throws if the store cannot fail like this. */
function does<Name extends Exclude<keyof Store, symbol | 'address'>>({ world }: Crowd, name: Name) {
  const fail = world.store[name];
  if (fail === undefined) throw new Error(`this store has no ${name}`);
  return fail as NonNullable<Store[Name]>;
}
