import { CountedEngine } from './counted-engine.js';
import { ScaleNetwork } from './scale-network.js';
import { ScaleNode, type Surroundings } from './scale-node.js';
import { Counts, listBytes } from './traffic.js';
import { VirtualTime } from './virtual-time.js';

/** The size and the load of a simulated cluster. */
export interface Load {
  readonly nodes: number;
  readonly seed: number;
  /** Sessions of each node that are only counted: what matters is what their clients ask for when the node dies. */
  readonly counted: number;
  /** Agents of each node, which are members of groups as well. */
  readonly agents: number;
  /** How long an agent stays, in milliseconds. */
  readonly stayMs: number;
  /** Groups that have members at a node, and nodes that have members of a group. */
  readonly groups: number;
  /** Messages to groups that each node sends in a second, and their bytes. */
  readonly messages: number;
  readonly size: number;
  /** Nodes that read all entries. Others read those of their groups and of the nodes whose entries they may have to remove. */
  readonly readers: number;
}

/** A node reads entries of so many nodes before it in the order of names, as they may die together. */
const NODES_BEFORE = 4;
/** The first attempt of a client to connect again is within so many milliseconds. */
const BACKOFF_MS = 100;
/** How long it takes until the next agent is there in place of one that has gone, in milliseconds. */
const CONNECT_MS = 20;
/** Searches of one node that wait for the engine; further clients are asked to come again. */
const MAX_SEARCHES = 8;

/** In which a byte that a node reads when it begins has its turn, in milliseconds: half of what the engine can do. */
const READ_MS = 2e-6;
/** Of a question where a session is, and its answer. */
const FIND_BYTES = listBytes('HMGET', 35, 'n', 'e') + listBytes(6, 1);

/** A cluster in virtual time. The same seed gives the same one. */
export class ScaleWorld implements Surroundings {
  readonly time = new VirtualTime();
  readonly engine = new CountedEngine(this.time);
  /** Between nodes. */
  readonly traffic = new Counts();
  readonly network = new ScaleNetwork(this.time, this.traffic, (name) => this.#byName.get(name));
  readonly nodes: ScaleNode[] = [];
  readonly load: Load;
  readonly #byName = new Map<string, ScaleNode>();
  #state: number;
  #agents = 0;
  #clients = 0;

  constructor(load: Load) {
    this.load = load;
    this.#state = load.seed;
  }

  /** From 0 to 1 (mulberry32). */
  random(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  }

  get alive(): readonly ScaleNode[] {
    return this.nodes.filter(({ isAlive }) => isAlive);
  }

  /** All nodes begin within one interval of renewals, with their agents. They read those of others when all are there. */
  async start(): Promise<void> {
    const { nodes, readers } = this.load;
    for (let i = 0; i < nodes; i++) this.#add(i % Math.ceil(nodes / readers) === 0);
    this.#orderNodes();
    for (const node of this.nodes) this.#begin(node, 1_500 * this.random());
    await this.time.pass(1_500);
    await this.until(() => this.engineIsClean, 30_000);
    // If all read at once, leases would wait behind that.
    const readMs = Math.max(1_000, nodes * this.engine.table('agents').bytes * READ_MS);
    for (const node of this.nodes)
      this.time.at(this.time.now() + readMs * this.random(), () => void node.follow());
    await this.time.pass(readMs);
    await this.until(
      () => this.alive.every(({ others, roster }) => others.isReady && roster.isReady),
      30_000,
    );
    await this.until(() => this.isConverged, 60_000);
  }

  #add(readsAll: boolean): ScaleNode {
    const index = this.nodes.length;
    let name = '';
    while (name.length < 6) name += LETTERS[Math.floor(this.random() * LETTERS.length)];
    const { groups, nodes } = this.load;
    const names = new Set<string>();
    while (names.size < Math.min(groups, nodes)) names.add(`group-${Math.floor(this.random() * nodes)}`);
    const node = new ScaleNode(this, name, index, [...names], readsAll);
    this.nodes.push(node);
    this.#byName.set(name, node);
    return node;
  }

  #begin(node: ScaleNode, afterMs: number): void {
    const { agents } = this.load;
    for (const group of node.groupNames) node.said.set(group, 0);
    this.time.at(this.time.now() + afterMs, () => {
      void node.start();
      for (let i = 0; i < agents; i++) node.join(this.#agents++, this.#groupOf(node, i));
    });
  }

  #groupOf({ groupNames }: ScaleNode, number: number): string {
    return groupNames[number % groupNames.length] as string;
  }

  /** Each node reads the entries of those before it. */
  #orderNodes(): void {
    const names = this.alive.map(({ name }) => name).sort();
    for (const [i, name] of names.entries()) {
      const before = new Set<string>();
      for (let back = 1; back <= NODES_BEFORE; back++)
        before.add(names.at((i - back) % names.length) as string);
      (this.#byName.get(name) as ScaleNode).before = before;
    }
  }

  /** Lets the nodes do their usual work for some time. */
  async live(ms: number): Promise<void> {
    const end = this.time.now() + ms;
    for (const node of this.alive) {
      this.#repeat(node, end, 1_000 / this.load.messages, () => {
        const group = this.#groupOf(node, Math.floor(this.random() * node.groupNames.length));
        node.say(group, this.load.size);
      });
      this.#repeat(node, end, this.load.stayMs / this.load.agents, () => {
        const group = node.leave();
        this.time.at(this.time.now() + CONNECT_MS, () => {
          if (node.isAlive) node.join(this.#agents++, group);
        });
      });
    }
    await this.time.pass(ms);
  }

  #repeat(node: ScaleNode, end: number, everyMs: number, task: () => void): void {
    const again = (at: number) => {
      if (at > end) return;
      this.time.at(at, () => {
        if (!node.isAlive) return;
        task();
        again(at + everyMs);
      });
    };
    again(this.time.now() + everyMs * this.random());
  }

  // --- what happens

  join(readsAll = false): ScaleNode {
    const node = this.#add(readsAll);
    this.#orderNodes();
    this.#begin(node, 0);
    this.time.at(this.time.now() + 10, () => void node.follow());
    return node;
  }

  /** Their processes die at once. Their clients come back to the others. */
  kill(nodes: readonly ScaleNode[]): void {
    for (const node of nodes) {
      node.isAlive = false;
      this.network.kill(node);
    }
    const { alive } = this;
    this.#clients = this.load.counted * nodes.length;
    for (const _ of alive) void this.#comeBack(this.#clients / alive.length, BACKOFF_MS * this.random());
  }

  /** Clients of dead nodes that wait for an answer. */
  get clients(): number {
    return Math.round(this.#clients);
  }

  /**
   * Clients of dead nodes at another one. As in `Leading`, a connection to the dead one is refused, so the engine is asked where the
   * session is, and has nothing: they begin new ones.
   */
  async #comeBack(clients: number, afterMs: number): Promise<void> {
    await this.time.wait(afterMs);
    for (let left = clients; left > 0; left -= MAX_SEARCHES) {
      const some = Math.min(left, MAX_SEARCHES);
      await this.engine.ask('findSession', some, some * FIND_BYTES);
      this.#clients -= some;
    }
  }

  /** Passes time until something is so. @returns milliseconds of the world that it took. */
  async until(check: () => boolean, mostMs: number): Promise<number> {
    const since = this.time.now();
    while (!check()) {
      if (this.time.now() - since >= mostMs) throw new Error(`not so within ${mostMs} ms`);
      await this.time.pass(20);
    }
    return this.time.now() - since;
  }

  // --- what has become of it

  /** Every node knows each of the others, and none that is gone. */
  get nodesAreKnown(): boolean {
    const { alive } = this;
    return alive.every(({ membership, name }) => {
      let known = 0;
      for (const { incarnation } of membership.others) {
        if (!membership.isAlive(incarnation)) continue;
        if (this.#byName.get(incarnation)?.isAlive !== true) return false;
        known++;
      }
      return known === alive.length - 1 && membership.get(name) === undefined;
    });
  }

  /** The engine has the agents and groups of living nodes and no others. */
  get engineIsClean(): boolean {
    const { alive } = this;
    const agents = alive.reduce((sum, { sessions }) => sum + sessions.length, 0);
    const groups = alive.reduce((sum, node) => sum + node.groups.local.size, 0);
    const { entries } = this.engine.table('agents');
    return entries.size === agents && this.engine.table('groups').entries.size === groups;
  }

  /** Nodes that read everything have the agents of all others. */
  get agentsAreKnown(): boolean {
    const { alive } = this;
    const agents = alive.reduce((sum, { sessions }) => sum + sessions.length, 0);
    return alive.every((node) => !node.readsAll || node.remote === agents - node.sessions.length);
  }

  get isConverged(): boolean {
    return this.nodesAreKnown && this.engineIsClean && this.agentsAreKnown;
  }

  /** Agents of living nodes that a reader does not have, or has at another session. */
  missing(): number {
    let missing = 0;
    for (const reader of this.alive.filter(({ readsAll }) => readsAll))
      for (const { sessions } of this.alive)
        for (const { principal, agentId, id } of sessions)
          if (reader.directory.find(principal, agentId)?.session.id !== id) missing++;
    return missing;
  }

  /** Messages of living nodes that a member did not get as the last one, and numbers that came twice or in the wrong order. */
  missed(): number {
    let missed = 0;
    for (const { sessions } of this.alive) for (const { wrong } of sessions) missed += wrong;
    for (const sender of this.alive)
      for (const [group, last] of sender.said)
        for (const { groups } of this.alive)
          for (const member of groups.local.get(group)?.members.keys() ?? []) {
            const heard = (member as never as { heard: ReadonlyMap<string, number> }).heard;
            const number = heard.get(`${sender.name}/${group}`);
            if (number !== undefined && number !== last) missed++;
          }
    return missed;
  }
}

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
