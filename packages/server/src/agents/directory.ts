import { createHmac } from 'node:crypto';
import {
  CloseCode,
  type Limits,
  type Logger,
  ProtocolError,
  type RequestHandler,
  type StringMap,
} from '@parlance/protocol';
import {
  type AgentDescription,
  type Clock,
  isAgentAddress,
  isAgentId,
  loggable,
  readAgent,
  type Sweepable,
} from '@parlance/protocol/internal';
import type { ServerEndpoint } from '../session/endpoint.js';
import type { Admission } from '../session/hooks.js';
import { forbidden, type Refusal } from '../transport/http/site.js';
import type { Agent } from './agent.js';
import type { AgentName, Policy } from './policy.js';
import type { RelayTarget } from './target.js';
import { Watchers } from './watchers.js';

export interface DirectoryOptions {
  readonly onConflict: 'takeOver' | 'refuse';
  /** Decides whether a session may know of an agent. */
  readonly policy: Pick<Policy, 'mayList' | 'isDecided'>;
  /** Derives addresses. */
  readonly key: Uint8Array;
  readonly limits: Limits;
  readonly clock: Pick<Clock, 'soon'>;
  readonly logger: Logger;
}

/** Is notified of the agents of this node, and notifies the directory of those of others. */
export interface Cohort {
  /** The agent has joined, or its state has changed. */
  handlePresent(agent: Agent): void;
  handleLeft(agent: Agent): void;
  /** Whether the agent of another node that has the ID can still be there. */
  isAlive(agent: Agent): boolean;
  /** The version of the agent's present state, the same at all nodes. */
  versionOf(agent: Agent): string;
  /**
   * Another node has the session of the agent from its record, or will have it. Returns the target that takes messages
   * to it until then.
   */
  handleAway(agent: Agent): RelayTarget | undefined;
}

type Introduction = Pick<Agent, 'description' | 'stated'>;

/**
 * The agents that are present: sessions of a server that have an agent ID and use the `agents` extension.
 *
 * A watcher is sent the latest state of each agent that has changed, only as fast as it reads. The directory keeps
 * at most one entry for each agent that is present or known to the watcher, however many join and leave.
 *
 * An agent ID belongs to its principal. Other principals know the agent by an opaque address, which is the same
 * whenever the agent is present: it is derived from principal and ID with a key that only this server has, or all of its
 * nodes have.
 *
 * {@link Cohort} says which agents other nodes have, if there are any.
 */
export class Directory implements Sweepable {
  readonly #options: DirectoryOptions;
  /** By principal, then by ID. */
  readonly #principals = new Map<string, Map<string, Agent>>();
  readonly #byAddress = new Map<string, Agent>();
  readonly #claims = new WeakMap<ServerEndpoint, Introduction>();
  /** `undefined` without other nodes. */
  cohort: Cohort | undefined;
  readonly watchers: Watchers;
  /** Agents whose connection was lost or resumed since the last tick; watchers are sent only the final state. */
  #flapping = new Set<Agent>();
  #version = 0;
  #key: Uint8Array;

  constructor(options: DirectoryOptions) {
    this.#options = options;
    this.#key = options.key;
    this.watchers = new Watchers({
      policy: options.policy,
      agentAt: (address) => this.#byAddress.get(address),
      agentOf: (session) => this.agentOf(session),
      visibleTo: (principal) => this.#visibleTo(principal),
      addressOf: (principal, id) => this.addressOf(principal, id),
    });
  }

  /**
   * The agent that a session of `principal` means by `name`.
   *
   * @param name an agent ID of the same principal, an address, or an agent of any principal.
   */
  find(principal: string, name: string | AgentName): Agent | undefined {
    if (typeof name === 'object') return this.#get(name.principal, name.id);
    return isAgentAddress(name) ? this.#byAddress.get(name) : this.#get(principal, name);
  }

  /** The agent of a session. */
  agentOf(session: RelayTarget): Agent | undefined {
    const { principal = '', agentId } = session;
    const agent = agentId === undefined ? undefined : this.#get(principal, agentId);
    return agent?.session === session ? agent : undefined;
  }

  #get(principal: string, id: string): Agent | undefined {
    return this.#principals.get(principal)?.get(id);
  }

  /** Whether a new session may be the agent that its client has authenticated as. */
  admit(
    { principal = '', agentId }: Partial<Pick<ServerEndpoint, 'principal' | 'agentId'>>,
    extensions: StringMap,
  ): Required<Pick<Admission, 'accepted'>> | Refusal | undefined {
    if (agentId === undefined || extensions['agents'] === undefined) return undefined;
    if (!isAgentId(agentId)) {
      this.#options.logger.warn(
        { event: 'agent.unaddressable', agentId },
        'an agent ID of this form cannot be addressed by other agents',
      );
      return undefined;
    }
    if (this.#refuses(this.#get(principal, agentId))) return IN_USE;
    try {
      const description = readAgent(extensions, this.#options.limits);
      return { accepted: (session) => void this.#claims.set(session, { description, stated: extensions }) };
    } catch (error) {
      return {
        code: 'UNKNOWN',
        message: `the agent's description: ${(error as Error).message}`,
        closeCode: CloseCode.BAD_FRAME,
      };
    }
  }

  /** How the HELLO of a session describes its agent. */
  statedOf(session: ServerEndpoint): StringMap | undefined {
    return (this.agentOf(session) ?? this.#claims.get(session))?.stated;
  }

  /** The session is established. */
  join(session: ServerEndpoint): void {
    const introduction = this.#claims.get(session);
    if (introduction === undefined || session.negotiated.extensions['agents'] === undefined) return;
    const { principal = '' } = session;
    const id = session.agentId as string;
    const holder = this.#get(principal, id);
    if (this.#refuses(holder)) {
      session.abort(new ProtocolError('forbidden', IN_USE.message));
      return;
    }
    if (holder !== undefined) this.#replace(holder);
    const party = Object.freeze({ id, principal });
    const address = this.addressOf(principal, id);
    const place = { id, address, party, session, via: undefined, former: undefined, isHeld: false };
    this.#enter({ ...place, ...introduction, isSuspended: false, version: '' }, session);
  }

  #enter(agent: Agent, session: ServerEndpoint): void {
    agent.version = this.#versionOf(agent);
    this.#add(agent);
    this.cohort?.handlePresent(agent);
    this.#listen(agent, session);
  }

  #listen(agent: Agent, session: ServerEndpoint): void {
    session.listeners.add('state', (state) => {
      if (state === 'closing' || state === 'closed') this.leave(session);
      else this.#handleFlap(agent);
    });
  }

  #versionOf(agent: Agent): string {
    return this.cohort?.versionOf(agent) ?? String(++this.#version);
  }

  leave(session: ServerEndpoint): void {
    const agent = this.agentOf(session);
    if (agent === undefined) return;
    const standIn = session.isElsewhere ? this.cohort?.handleAway(agent) : undefined;
    if (standIn !== undefined) {
      const version = this.#versionOf(agent);
      this.handleMoved(agent, standIn);
      return this.addRemote(standIn, agent.description, true, version);
    }
    this.#remove(agent);
    this.cohort?.handleLeft(agent);
  }

  /** The stand-in for a session that was here and continues at another node. */
  standInOf({ id, principal = '', agentId, isElsewhere }: RelayTarget): RelayTarget | undefined {
    if (isElsewhere !== true || agentId === undefined) return undefined;
    const agent = this.#get(principal, agentId);
    return agent?.session.id === id && agent.session.isRemote ? agent.session : undefined;
  }

  /** An agent of another node is present, or has changed. */
  addRemote(
    session: RelayTarget,
    description: AgentDescription,
    isSuspended: boolean,
    version: string,
  ): void {
    const { principal = '', agentId: id = '' } = session;
    const party = Object.freeze({ id, principal });
    const address = this.addressOf(principal, id);
    const place = { id, address, party, session, via: undefined, former: undefined, isHeld: false };
    this.#add({ ...place, description, stated: undefined, isSuspended, version });
  }

  /** The session of an agent of this node has moved to another node, where `target` stands for it. */
  handleMoved(agent: Agent, target: RelayTarget): void {
    agent.session = target;
    agent.via = undefined;
    agent.former = undefined;
    agent.isHeld = false;
    agent.stated = undefined;
  }

  /**
   * A session has moved here with its agent. Watchers notice nothing if they know the agent already.
   *
   * @param stated the extensions of its HELLO.
   * @throws {ProtocolError} `bad_message` if they describe no agent.
   */
  adopt(session: ServerEndpoint, stated: StringMap): Agent {
    const { principal = '' } = session;
    const id = session.agentId as string;
    const isSuspended = session.state === 'suspended';
    const known = this.#get(principal, id);
    const party = known?.party ?? Object.freeze({ id, principal });
    const agent: Agent = {
      id,
      address: this.addressOf(principal, id),
      party,
      session,
      via: undefined,
      former: undefined,
      isHeld: false,
      description: readAgent(stated, this.#options.limits),
      stated,
      isSuspended,
      version: '',
    };
    agent.version = this.#versionOf(agent);
    if (known !== undefined && known.session.id !== session.id) this.#replace(known);
    this.#add(agent);
    this.#listen(agent, session);
    return agent;
  }

  removeRemote(session: RelayTarget): void {
    const agent = this.agentOf(session);
    if (agent !== undefined) this.#remove(agent);
  }

  /** Another node has a newer session under the agent ID of this one. */
  endReplaced(session: ServerEndpoint): void {
    const agent = this.agentOf(session);
    if (agent === undefined) return;
    this.#remove(agent);
    session.abort(replaced(agent.id));
  }

  #refuses(holder: Agent | undefined): boolean {
    if (holder === undefined || this.#options.onConflict !== 'refuse') return false;
    return !holder.session.isRemote || this.cohort?.isAlive(holder) !== false;
  }

  #replace(holder: Agent): void {
    this.#remove(holder);
    // Another node ends its session when it learns of the new one.
    if (!holder.session.isRemote) holder.session.abort(replaced(holder.id));
  }

  #add(agent: Agent): void {
    const { id, address, party } = agent;
    const agents = this.#principals.get(party.principal) ?? new Map<string, Agent>();
    this.#principals.set(party.principal, agents);
    agents.set(id, agent);
    this.#byAddress.set(address, agent);
    this.watchers.announce(agent);
  }

  #remove(agent: Agent): void {
    const { id, address, party } = agent;
    const agents = this.#principals.get(party.principal);
    agents?.delete(id);
    if (agents?.size === 0) this.#principals.delete(party.principal);
    this.#byAddress.delete(address);
    this.watchers.announce(agent);
  }

  /** Announces agents whose state differs from the one that was announced last. */
  handleTick(): void {
    const flapping = this.#flapping;
    this.#flapping = new Set();
    for (const agent of flapping) {
      const isSuspended = agent.session.state === 'suspended';
      if (isSuspended === agent.isSuspended || this.agentOf(agent.session) !== agent) continue;
      agent.isSuspended = isSuspended;
      agent.version = this.#versionOf(agent);
      this.watchers.announce(agent);
      this.cohort?.handlePresent(agent);
    }
  }

  /** The handler for a session that queries the directory. @param stream of the request. */
  handlerFor(asker: ServerEndpoint, stream = 0): RequestHandler {
    return this.watchers.handlerFor(asker, stream);
  }

  /** Addresses of the agents that a session of `principal` may be allowed to see. */
  #visibleTo(principal: string): string[] {
    if (this.#options.policy.isDecided) return [...this.#byAddress.keys()];
    return Array.from(this.#principals.get(principal)?.values() ?? [], ({ address }) => address);
  }

  /** Unguessable, and distinct from agent IDs, which contain no `~`. */
  addressOf(principal: string, id: string): string {
    // As JSON, so that different pairs never give the same text.
    const name = JSON.stringify([principal, id]);
    return `~${createHmac('sha256', this.#key).update(ADDRESS).update(name).digest('base64url')}`;
  }

  get limits(): Limits {
    return this.#options.limits;
  }

  /** Addresses are derived from this key. All nodes have the same one. */
  get key(): Uint8Array {
    return this.#key;
  }

  /** Derives other addresses from now on. Agents that are present leave under the former ones. */
  set key(key: Uint8Array) {
    if (Buffer.compare(key, this.#key) === 0) return;
    const present = [...this.#byAddress.values()];
    for (const agent of present) this.#remove(agent);
    this.#key = key;
    for (const agent of present) {
      agent.address = this.addressOf(agent.party.principal, agent.id);
      this.#add(agent);
    }
  }

  /** A tick of the directory has failed; no session is at fault. */
  crash(error: unknown): void {
    this.#options.logger.error({ event: 'agents.failed', err: loggable(error) }, 'notifying watchers failed');
  }

  #handleFlap(agent: Agent): void {
    if (this.#flapping.size === 0) this.#options.clock.soon(this);
    this.#flapping.add(agent);
  }
}

function replaced(id: string): ProtocolError {
  return new ProtocolError('taken_over', `a newer session is agent ${id}`);
}

/** So that no signature is valid for something else. */
const ADDRESS = 'parlance agent 1\n';

const IN_USE = forbidden('another session of this principal already has this agent ID');
