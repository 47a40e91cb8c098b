import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { RequestHandler } from '@parlance/client';
import type { Child } from '../../../scripts/child-process.js';
import { MEMORY } from '../kit/engine-address.js';
import { startNode } from '../kit/programs.js';
import { Device } from './device.js';
import { createGate } from './gate.js';
import type { SurvivalNodeCommands } from './node.js';
import type { Store } from './stores.js';

/** The nodes of one store. */

/** A server, in a process of its own, or beside others whose store is the memory of that. */
export interface SurvivalNode {
  readonly process: Child<SurvivalNodeCommands>;
  readonly port: number;
  /** Which of the servers of its process. */
  readonly at: number;
}

export class World implements AsyncDisposable {
  readonly store: Store;
  readonly nodes: SurvivalNode[] = [];
  /** Of the handlers of agents. */
  readonly gate = createGate();
  readonly #secret: string | undefined;
  readonly #crowds: Crowd[] = [];
  readonly #closed = new Set<SurvivalNode>();

  private constructor(store: Store, nodes: number) {
    this.#secret = nodes === 0 ? undefined : randomBytes(24).toString('base64');
    this.store = store;
  }

  /** @param nodes one or two; 0 is a process that is not a node of a cluster. */
  static async start(store: Store, nodes: number): Promise<World> {
    const world = new World(store, nodes);
    const count = Math.max(1, nodes);
    if (store.address === MEMORY) await world.add(count);
    else await Promise.all(Array.from({ length: count }, () => world.add()));
    if (nodes > 1)
      for (const { process } of world.nodes)
        while ((await process.call('events'))['node.joined'] === undefined) await pause(10);
    return world;
  }

  /** Starts a process. @param servers in it. @param port of the first one. */
  async add(servers = 1, port?: number): Promise<void> {
    const setup = { address: this.store.address, secret: this.#secret, servers, port };
    const { process } = await startNode('survival/node', setup);
    for (const [at, port] of (await process.call('ports')).entries()) this.nodes.push({ process, port, at });
  }

  /** Ends a node that has nothing more to do, and its process, unless there are others in it. */
  async end(node: SurvivalNode): Promise<void> {
    this.#closed.add(node);
    const { process, at } = node;
    if (this.living.some((other) => other.process === process)) await process.call('close', at);
    else await process.kill();
  }

  /** Its processes do not reach each other. */
  get isAlone(): boolean {
    return this.#secret === undefined;
  }

  get living(): readonly SurvivalNode[] {
    return this.nodes.filter((node) => node.process.end === undefined && !this.#closed.has(node));
  }

  nodeAt(index: number): SurvivalNode {
    return this.nodes[index] as SurvivalNode;
  }

  /** Replies have that many parts. */
  async open(parts: number): Promise<void> {
    this.gate.open(parts);
    await Promise.all(this.living.map(({ process }) => process.call('open', parts)));
  }

  /** How often the nodes that live have logged something. */
  async logged(event: string): Promise<number> {
    const counts = this.living.map(async ({ process }) => (await process.call('events'))[event] ?? 0);
    return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
  }

  /** Those to whom one event happens. */
  gather(): Crowd {
    const crowd = new Crowd(this);
    this.#crowds.push(crowd);
    return crowd;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { devices } of this.#crowds) for (const device of devices) await device.close();
    for (const { process } of this.nodes) await process.kill();
  }
}

/** Those to whom one thing happens, among others of the same world. */
export class Crowd {
  readonly world: World;
  readonly devices: Device[] = [];
  /** Those of the node that something happens to. */
  readonly near: Device[] = [];
  /** The node that devices of each place connect to next. */
  readonly #at: number[];

  constructor(world: World) {
    this.world = world;
    this.#at = [0, world.nodes.length - 1];
  }

  /** @param place 0 is the node that something happens to, 1 the other one, if there is another one. */
  async dial(token: string, place: 0 | 1 = 0, onRequest?: RequestHandler): Promise<Device> {
    const port = () => this.world.nodeAt(this.#at[place] as number).port;
    const device = await Device.dial({ token, port, onRequest });
    this.devices.push(device);
    if (place === 0) this.near.push(device);
    return device;
  }

  /** The next connections of all devices go there, or to the only node. */
  lead(to: number): void {
    this.#at.fill(Math.min(to, this.world.nodes.length - 1));
  }
}
