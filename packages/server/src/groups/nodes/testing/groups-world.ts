import { resolveLimits } from '@parlance/protocol';
import { MemoryBudget, newIncarnation, newSessionId, SILENT_LOGGER } from '@parlance/protocol/internal';
import { Links } from '../../../cluster/link/links.js';
import { Network } from '../../../cluster/link/testing/network.js';
import { memoryCluster } from '../../../engine/memory.js';
import type { ServerEndpoint } from '../../../session/endpoint.js';
import type { GroupMessage } from '../../delivery.js';
import type { PresenceChange } from '../../group.js';
import { Groups } from '../../groups.js';
import type { Membership } from '../../local-group.js';
import { resolveGroupsOptions } from '../../options.js';
import { PresenceFeed } from '../../presence-feed.js';
import { Presences } from '../../presences.js';
import { readSaved, savedOf } from '../../state.js';
import { GroupsOfNodes } from '../groups-of-nodes.js';

/** Groups of nodes without sockets, and sessions that move from one to another. */

const LIMITS = resolveLimits();
/** How long a recorded session may be at no node, in milliseconds of the world. */
const KEPT_MS = 600_000;

/** A member, which outlives the places where its session is. */
export class Client {
  readonly id: string;
  readonly principal: string;
  readonly isKept: boolean;
  epoch = 0;
  /** The messages that it has received; of a recorded session, only the recorded ones. */
  heard: string[] = [];
  isLost = false;
  /** Its record: its memberships, and the messages that were sent to it. */
  record: { readonly saved: unknown; readonly heard: readonly string[] } = { saved: undefined, heard: [] };

  constructor(id: string, principal: string, isKept: boolean) {
    this.id = id;
    this.principal = principal;
    this.isKept = isKept;
  }
}

/** The session of a client at one node, as groups use it. */
export class SimulatedMember {
  readonly id: string;
  readonly principal: string;
  readonly isAnonymous = false;
  readonly isDurable: boolean;
  readonly epoch: number;
  readonly client: Client;
  /** All that it was sent. */
  readonly sent: string[];
  readonly session = {};
  readonly scanner = undefined;
  readonly memory = { tryReserve: () => ({ release() {} }) };
  readonly listeners = { add() {} };
  readonly negotiated = { algorithms: ['NONE'], encoding: null, extensions: {} };
  readonly loading = { usable: { algorithms: ['NONE'], encoding: undefined } };
  readonly options = { limits: LIMITS, security: undefined, yield: async () => {}, clock: {} };
  readonly outbound = { hasRoom: () => true, order: { pending: undefined }, statesSecurity: false };
  readonly memberships = new Map<string, Membership>();
  state: 'established' | 'suspended' = 'established';
  isFrozen = false;
  hasEnded = false;

  constructor(client: Client) {
    this.client = client;
    this.id = client.id;
    this.principal = client.principal;
    this.isDurable = client.isKept;
    this.epoch = client.epoch;
    this.sent = [...(client.isKept ? client.record.heard : client.heard)];
  }

  perform(command: (core: { readonly channel: object }) => void): void {
    if (this.isFrozen) throw new Error('nothing is sent to a session that moves');
    const send = ({ bytes }: { readonly bytes: Uint8Array }) => {
      this.sent.push(Buffer.from(bytes).toString());
      if (!this.isDurable) this.client.heard = [...this.sent];
    };
    command({ channel: { send } });
  }

  /** Records its messages and its memberships. */
  handleChanged(): void {
    if (!this.isDurable || this.isFrozen) return;
    this.client.record = { saved: savedOf(this.memberships), heard: [...this.sent] };
    this.client.heard = [...this.sent];
  }
}

export class SimulatedNode {
  readonly name = newIncarnation();
  readonly links: Links;
  readonly groups: Groups;
  readonly presences: Presences;
  readonly others: GroupsOfNodes;
  readonly members = new Map<string, SimulatedMember>();
  /** The messages of this node, by group. */
  readonly said = new Map<string, string[]>();
  isAlive = true;

  constructor(world: GroupsWorld) {
    const isNodeAlive = (name: string) => world.nodes.some((node) => node.name === name && node.isAlive);
    const memory = new MemoryBudget(Number.POSITIVE_INFINITY);
    const of = (session: ServerEndpoint) => (session as never as SimulatedMember).memberships;
    const host = {
      options: resolveGroupsOptions({}),
      logger: SILENT_LOGGER,
      now: () => world.time,
      find: (id: string) => this.members.get(id) as never as ServerEndpoint | undefined,
      changed: (session: ServerEndpoint) => (session as never as SimulatedMember).handleChanged(),
      membershipsOf: of,
      peekMemberships: of,
    };
    this.groups = new Groups(host, new PresenceFeed((task) => void world.due.push(task)));
    this.presences = new Presences(this.groups, this.name, () => world.time);
    this.links = new Links({
      incarnation: this.name,
      memory,
      logger: SILENT_LOGGER,
      isMember: isNodeAlive,
      dial: (name, onOpen, onFailed) => world.dial(this, name, onOpen, onFailed),
    });
    this.others = new GroupsOfNodes({
      incarnation: this.name,
      link: world.engine.connect(),
      links: this.links,
      groups: this.groups,
      presences: this.presences,
      memory,
      logger: world.logger,
      maxMessageSize: LIMITS.maxMessageSize,
      keptMs: KEPT_MS,
      now: () => world.time,
      isNodeAlive,
      hasLease: () => this.isAlive,
      others: () => world.nodes.filter((node) => node !== this && node.isAlive).map(({ name }) => name),
    });
    this.groups.nodes = this.others;
  }

  join(client: Client, ...names: readonly string[]): SimulatedMember {
    const member = new SimulatedMember(client);
    this.members.set(member.id, member);
    for (const name of names) this.groups.add(name, member as never as ServerEndpoint, undefined);
    return member;
  }

  say(name: string, text: string): void {
    const message: GroupMessage = {
      ...{ content: text, algorithm: undefined, secret: false, except: undefined },
      size: text.length,
    };
    const said = this.said.get(name) ?? [];
    this.said.set(name, said);
    said.push(text);
    this.groups.hand(name, message, this.others.say(name, message).sequence);
  }

  /** Continues a session. @param saved the state that its former node has saved. */
  take(client: Client, saved: unknown): void {
    client.epoch++;
    const member = new SimulatedMember(client);
    this.members.set(client.id, member);
    this.groups.restore(member as never as ServerEndpoint, readSaved(saved));
  }

  forget(member: SimulatedMember): void {
    member.hasEnded = true;
    this.members.delete(member.id);
    this.groups.forget(member as never as ServerEndpoint, 'moved');
  }

  tick(): void {
    this.links.handleTick();
    this.others.handleTick();
    this.presences.handleTick();
  }
}

export class GroupsWorld extends Network<SimulatedNode> {
  readonly engine = memoryCluster(() => this.time);
  /** Tasks that nodes have put off for a moment. */
  readonly due: (() => void)[] = [];
  time = 0;
  /** Of what nodes say to each other. */
  logger = SILENT_LOGGER;

  async addNode(): Promise<SimulatedNode> {
    const node = new SimulatedNode(this);
    this.nodes.push(node);
    await node.others.start();
    return node;
  }

  clientOf(node: SimulatedNode, principal: string, isKept = false): Client {
    return new Client(newSessionId(node.name), principal, isKept);
  }

  kill(node: SimulatedNode): void {
    node.isAlive = false;
    this.cutAll(node);
  }

  /** Lets everything arrive. */
  async calm(): Promise<void> {
    for (let i = 0; i < 30; i++) {
      for (let moved = true; moved; ) {
        moved = false;
        for (const dial of this.dialing.splice(0)) {
          dial();
          moved = true;
        }
        for (const { pair } of [...this.ends])
          for (const end of pair)
            while (end.queue.length > 0) {
              end.deliver();
              moved = true;
            }
        await settled();
      }
      for (const task of this.due.splice(0)) task();
      this.tick();
    }
  }

  tick(): void {
    this.time += 1_000;
    for (const node of this.nodes) if (node.isAlive) node.tick();
  }

  async stop(): Promise<void> {
    for (const { others, isAlive } of this.nodes) if (isAlive) await others.close();
  }
}

/** Collects what a node tells of who is there. */
export function watch(node: SimulatedNode, name: string): PresenceChange[] {
  const changes: PresenceChange[] = [];
  void (async () => {
    for await (const some of node.presences.watch(name, undefined)) changes.push(...some);
  })();
  return changes;
}

export const settled = () => new Promise((resolve) => setImmediate(resolve));
