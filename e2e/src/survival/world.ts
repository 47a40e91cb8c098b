import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { RequestHandler } from '@parlance/client';
import { type RedisServer, startRedis } from '../../../packages/server/src/engine/testing/redis-server.js';
import {
  createSilentProxy,
  type SilentProxy,
} from '../../../packages/server/src/engine/testing/silent-proxy.js';
import { type CuttingProxy, createCuttingProxy } from '../cutting-proxy.js';
import { type NodeProcess, startNode } from '../kit/programs.js';
import { Device } from './device.js';
import { createGate } from './gate.js';

/** Redis, the nodes that use it through a proxy, and devices. */

type SurvivalNode = NodeProcess<'survival/node'>;

export class World implements AsyncDisposable {
  readonly redis: RedisServer;
  /** What nodes know as Redis, and the way from there to it. */
  readonly silent: SilentProxy;
  readonly address: CuttingProxy;
  readonly nodes: SurvivalNode[] = [];
  readonly devices: Device[] = [];
  /** Those of the node that something happens to. */
  readonly near: Device[] = [];
  /** Of the handlers of agents. */
  readonly gate = createGate();
  readonly #others: AsyncDisposable[] = [];
  readonly #secret: string | undefined;
  /** The node that devices of each place connect to next. */
  readonly #at: number[];

  private constructor(redis: RedisServer, silent: SilentProxy, address: CuttingProxy, nodes: number) {
    this.#secret = nodes === 0 ? undefined : randomBytes(24).toString('base64');
    this.redis = redis;
    this.silent = silent;
    this.address = address;
    this.#at = [0, Math.max(0, nodes - 1)];
  }

  /** @param nodes one or two; 0 is a process that is not a node of a cluster. */
  static async start(nodes: number): Promise<World> {
    const redis = await startRedis();
    const address = await createCuttingProxy(portOf(redis));
    const world = new World(redis, await createSilentProxy(address.port), address, nodes);
    await Promise.all(Array.from({ length: Math.max(1, nodes) }, () => world.add()));
    if (nodes > 1)
      for (const { process } of world.nodes)
        while ((await process.call('events'))['node.joined'] === undefined) await pause(10);
    return world;
  }

  async add(): Promise<void> {
    const url = `redis://127.0.0.1:${this.silent.port}`;
    this.nodes.push(await startNode('survival/node', { url, secret: this.#secret }));
  }

  /** Its processes do not reach each other. */
  get isAlone(): boolean {
    return this.#secret === undefined;
  }

  get living(): readonly SurvivalNode[] {
    return this.nodes.filter(({ process }) => process.end === undefined);
  }

  nodeAt(index: number): SurvivalNode {
    return this.nodes[index] as SurvivalNode;
  }

  /** @param place 0 is the node that something happens to, 1 the other one, if there is another one. */
  async dial(token: string, place: 0 | 1 = 0, onRequest?: RequestHandler): Promise<Device> {
    const port = () => this.nodeAt(this.#at[place] as number).port;
    const device = await Device.dial({ token, port, onRequest });
    this.devices.push(device);
    if (place === 0) this.near.push(device);
    return device;
  }

  /** The next connections of all devices go there. */
  lead(to: number): void {
    this.#at.fill(to);
  }

  /** Replies have that many parts. */
  async open(parts: number): Promise<void> {
    this.gate.open(parts);
    await Promise.all(this.living.map(({ process }) => process.call('open', parts)));
  }

  /** In the order given. */
  alsoClose(...others: readonly AsyncDisposable[]): void {
    this.#others.push(...others);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const device of this.devices) await device.close();
    for (const { process } of this.nodes) await process.kill();
    await this.silent[Symbol.asyncDispose]();
    await this.address[Symbol.asyncDispose]();
    for (const each of this.#others) await each[Symbol.asyncDispose]();
    await this.redis[Symbol.asyncDispose]();
  }
}

export const portOf = ({ url }: { readonly url: string }): number => Number(new URL(url).port);
