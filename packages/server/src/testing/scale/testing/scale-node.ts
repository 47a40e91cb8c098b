import { resolveLimits } from '@parlance/protocol';
import { MemoryBudget, SILENT_LOGGER } from '@parlance/protocol/internal';
import { Directory } from '../../../agents/directory.js';
import { Roster } from '../../../agents/nodes/roster.js';
import type { RelayTarget } from '../../../agents/target.js';
import { Links } from '../../../cluster/link/links.js';
import { Membership } from '../../../cluster/membership.js';
import { isProven, proveAddress } from '../../../cluster/ticket.js';
import { Groups } from '../../../groups/groups.js';
import type { Membership as InGroup } from '../../../groups/local-group.js';
import { GroupsOfNodes } from '../../../groups/nodes/groups-of-nodes.js';
import { resolveGroupsOptions } from '../../../groups/options.js';
import { PresenceFeed } from '../../../groups/presence-feed.js';
import { Presences } from '../../../groups/presences.js';
import type { ServerEndpoint } from '../../../session/endpoint.js';
import type { CountedEngine, Reader } from './counted-engine.js';
import type { ScaleNetwork } from './scale-network.js';
import type { VirtualTime } from './virtual-time.js';

const LIMITS = resolveLimits();
const SECRET = Buffer.from('the secret of a simulated cluster');
const TICK_MS = 1_000;
const PRINCIPALS = 1_000;
/** The capabilities that a client of this SDK offers and its server agrees on. */
const NEGOTIATED = { algorithms: ['NONE'], encoding: null, extensions: { agents: '{}' } };
const STATED = { agents: JSON.stringify({ metadata: { skills: ['summing', 'translating'] } }) };

/** The time, engine and network that nodes share. */
export interface Surroundings {
  readonly time: VirtualTime;
  readonly engine: CountedEngine;
  readonly network: ScaleNetwork;
  random(): number;
}

/** The parts of a session that directories and groups use. */
export class ScaleSession {
  readonly isRemote = false;
  readonly isAnonymous = false;
  readonly isDurable = false;
  readonly isFrozen = false;
  readonly hasEnded = false;
  readonly state = 'established';
  readonly epoch = 0;
  readonly retentionMs = 0;
  readonly negotiated = NEGOTIATED;
  readonly session = {};
  readonly scanner = undefined;
  readonly memory = { tryReserve: () => ({ release() {} }) };
  readonly listeners = { add() {} };
  readonly loading = { usable: { algorithms: ['NONE'], encoding: undefined } };
  readonly options = { limits: LIMITS, security: undefined, yield: async () => {}, clock: {} };
  readonly outbound = { hasRoom: () => true, order: { pending: undefined }, statesSecurity: false };
  readonly memberships = new Map<string, InGroup>();
  readonly id: string;
  readonly principal: string;
  readonly agentId: string;
  /** The last number that was heard of each sender, and what was wrong with numbers. */
  readonly heard = new Map<string, number>();
  wrong = 0;

  constructor(node: string, number: number) {
    this.id = `sess_${node}${String(number).padStart(14, '0')}`;
    this.principal = `principal-${number % PRINCIPALS}`;
    this.agentId = `agent-${number}`;
  }

  perform(command: (core: { readonly channel: object }) => void): void {
    command({ channel: { send: ({ bytes }: { readonly bytes: Uint8Array }) => this.#hear(bytes) } });
  }

  #hear(bytes: Uint8Array): void {
    const [sender = '', number = ''] = Buffer.from(bytes).toString().split(' ', 2);
    const before = this.heard.get(sender);
    if (before !== undefined && Number(number) !== before + 1) this.wrong++;
    this.heard.set(sender, Number(number));
  }

  abort(error: Error): never {
    throw new Error(`${this.agentId} was ended: ${error.message}`);
  }
}

/** One node: membership, directory, links and groups as the server has them. */
export class ScaleNode implements Reader {
  readonly name: string;
  readonly index: number;
  readonly readsAll: boolean;
  isAlive = true;
  /** Nodes whose entries it reads, because it may have to remove them. */
  before: ReadonlySet<string> = new Set();
  readonly groupNames: readonly string[];
  readonly sessions: ScaleSession[] = [];
  readonly membership: Membership;
  readonly directory: Directory;
  readonly roster: Roster;
  readonly links: Links;
  readonly groups: Groups;
  readonly others: GroupsOfNodes;
  /** Agents of other nodes that the directory has. */
  remote = 0;
  /** The number of messages of this node, by group. */
  readonly said = new Map<string, number>();
  readonly #world: Surroundings;
  readonly #byId = new Map<string, ScaleSession>();

  constructor(
    world: Surroundings,
    name: string,
    index: number,
    groupNames: readonly string[],
    readsAll: boolean,
  ) {
    this.#world = world;
    this.name = name;
    this.index = index;
    this.groupNames = groupNames;
    this.readsAll = readsAll;
    const { time } = world;
    const now = () => time.now();
    const memory = new MemoryBudget(Number.POSITIVE_INFINITY);
    const engine = world.engine.of(this);
    const logger = SILENT_LOGGER;
    this.membership = new Membership({
      ...{ engine, incarnation: name, clock: time, logger },
      now: () => time.timeOrigin + time.now(),
      refusalOf: ({ incarnation, address, proof }) =>
        isProven([SECRET], incarnation, address, proof) ? undefined : 'is not signed',
    });
    const isNodeAlive = (node: string) => this.membership.isAlive(node);
    const others = () => Array.from(this.membership.others, ({ incarnation }) => incarnation);
    const pause = (ms: number) => time.wait(ms);
    this.directory = new Directory({
      ...{ onConflict: 'takeOver', limits: LIMITS, logger, key: new Uint8Array(32), clock: time },
      policy: { isDecided: false, mayList: () => true },
    });
    this.roster = new Roster({
      ...{ link: engine.connect(), incarnation: name, directory: this.directory, onConflict: 'takeOver' },
      ...{ limits: LIMITS, logger, now, isNodeAlive, others, pause },
      peers: {
        targetOf: (_node, { sessionId, ...agent }) =>
          ({ id: sessionId, ...agent, isRemote: true, state: 'established' }) as RelayTarget,
        handleAway: ({ session }) => session,
        reroute() {},
        forget() {},
      },
    });
    this.#countRemote();
    const of = (session: ServerEndpoint) => (session as never as ScaleSession).memberships;
    this.groups = new Groups(
      {
        ...{ options: resolveGroupsOptions({}), logger, now, changed() {} },
        find: (id) => this.#byId.get(id) as never,
        ...{ membershipsOf: of, peekMemberships: of },
      },
      new PresenceFeed((task) => void time.after(200, task)),
    );
    this.links = new Links({
      ...{ incarnation: name, memory, logger, isMember: isNodeAlive },
      dial: (node, onOpen, onFailed) => world.network.dial(this, node, onOpen, onFailed),
    });
    this.others = new GroupsOfNodes({
      ...{
        incarnation: name,
        link: engine.connect(),
        links: this.links,
        groups: this.groups,
        memory,
        logger,
      },
      presences: new Presences(this.groups, name, now),
      ...{ maxMessageSize: LIMITS.maxMessageSize, keptMs: 60_000, now, isNodeAlive, others, pause },
      hasLease: () => true,
    });
    this.groups.nodes = this.others;
  }

  #countRemote(): void {
    const { directory } = this;
    const [add, remove] = [directory.addRemote.bind(directory), directory.removeRemote.bind(directory)];
    const known = new WeakSet<RelayTarget>();
    directory.addRemote = (session, ...rest) => {
      add(session, ...rest);
      if (!known.has(session)) this.remote++;
      known.add(session);
    };
    directory.removeRemote = (session) => {
      remove(session);
      this.remote--;
    };
  }

  /** Joins, as `ClusterNode` does. */
  async start(): Promise<void> {
    const address = `wss://10.0.${this.index >> 8}.${this.index & 255}:7946`;
    await this.membership.start({ address, proof: proveAddress(SECRET, this.name, address) });
    this.#world.time.at(this.#world.time.now() + TICK_MS * this.#world.random(), () => this.#tick());
  }

  /** Reads what the engine has of agents and groups, and follows its changes. */
  async follow(): Promise<void> {
    await this.roster.start();
    await this.others.start();
  }

  #tick(): void {
    if (!this.isAlive) return;
    this.#world.time.at(this.#world.time.now() + TICK_MS, () => this.#tick());
    this.links.handleTick();
    this.roster.handleTick();
    this.others.handleTick();
  }

  reads(table: string, holder: string, record: string): boolean {
    if (table === 'groups') return this.before.has(holder) || holder === this.name || this.said.has(record);
    const node = holder.slice(5, 11);
    return node === this.name || this.before.has(node);
  }

  /** An agent comes, which is a member of one of the groups of this node. */
  join(number: number, group: string): ScaleSession {
    const session = new ScaleSession(this.name, number);
    const endpoint = session as never as ServerEndpoint;
    this.sessions.push(session);
    this.#byId.set(session.id, session);
    const admitted = this.directory.admit(endpoint, STATED);
    if (admitted === undefined || 'code' in admitted) throw new Error('an agent was refused');
    admitted.accepted(endpoint);
    this.directory.join(endpoint);
    this.groups.add(group, endpoint, undefined);
    return session;
  }

  /** The agent that is here for longest goes. @returns its group. */
  leave(): string {
    const session = this.sessions.shift() as ScaleSession;
    const [group] = session.memberships.keys();
    this.directory.leave(session as never as ServerEndpoint);
    this.groups.forget(session as never as ServerEndpoint, 'left');
    this.#byId.delete(session.id);
    return group as string;
  }

  say(group: string, size: number): void {
    const number = (this.said.get(group) ?? 0) + 1;
    this.said.set(group, number);
    const content = `${this.name}/${group} ${number} `.padEnd(size, '.');
    const message = { content, algorithm: undefined, secret: false, except: undefined, size };
    this.groups.hand(group, message, this.others.say(group, message).sequence);
  }
}
