import { createHmac } from 'node:crypto';
import {
  type AgentInfo,
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
  type DirectoryNews,
  type DirectoryQuery,
  isAgentAddress,
  isAgentId,
  loggable,
  newsFields,
  readAgent,
  type Sweepable,
} from '@parlance/protocol/internal';
import type { Refusal } from '../admission/admission.js';
import type { ServerEndpoint } from '../endpoint.js';
import { type Agent, infoOf } from './agent.js';
import type { AgentName, Policy } from './policy.js';
import type { RelayTarget } from './target.js';

export interface DirectoryOptions {
  readonly onConflict: 'takeOver' | 'refuse';
  /** Decides whether a session may know of an agent. */
  readonly policy: Pick<Policy, 'mayList' | 'isDecided'>;
  /** Derives addresses: random, or the secret of a cluster, so that all its nodes have the same. */
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
}

type Introduction = Pick<Agent, 'description' | 'stated'>;

/** A session that watches for changes, and what it has been sent. Agents are identified by address. */
interface Watcher {
  readonly principal: string;
  readonly sent: Map<string, { readonly name: string; readonly version: number }>;
  /** Agents that may have changed for it. */
  readonly dirty: Set<string>;
  readonly signal: AbortSignal;
  wake: () => void;
}

/** Agents in one part of a reply. */
const PIECE = 32;

/**
 * The agents that are present: sessions of a server that have an agent ID and use the `agents` extension.
 *
 * A watcher is sent the latest state of each agent that has changed, only as fast as it reads. The directory keeps
 * at most one entry for each agent that is present or known to the watcher, however many join and leave.
 *
 * An agent ID belongs to its principal. Other principals know the agent by an opaque address, which is the same
 * whenever the agent is present: it is derived from principal and ID with a key that only this server has, or the nodes of
 * its cluster have.
 *
 * Without a cluster, all agents are of this node. In a cluster, {@link Cohort} says which agents other nodes have.
 */
export class Directory implements Sweepable {
  readonly #options: DirectoryOptions;
  /** By principal, then by ID. */
  readonly #principals = new Map<string, Map<string, Agent>>();
  readonly #byAddress = new Map<string, Agent>();
  readonly #claims = new WeakMap<ServerEndpoint, Introduction>();
  /** `undefined` without a cluster. */
  cohort: Cohort | undefined;
  /** At most one per session. */
  readonly #watchers = new Map<ServerEndpoint, Watcher>();
  /** Agents whose connection was lost or resumed since the last tick; watchers are sent only the final state. */
  #flapping = new Set<Agent>();
  #version = 0;

  constructor(options: DirectoryOptions) {
    this.#options = options;
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

  /** Before ACCEPT: whether the session may be the agent that it has authenticated as. */
  claim(session: ServerEndpoint, extensions: StringMap): Refusal | undefined {
    const { agentId } = session;
    if (agentId === undefined || extensions['agents'] === undefined) return undefined;
    if (!isAgentId(agentId)) {
      this.#options.logger.warn(
        { event: 'agent.unaddressable', agentId },
        'an agent ID of this form cannot be addressed by other agents',
      );
      return undefined;
    }
    const holder = this.#get(session.principal ?? '', agentId);
    if (this.#refuses(holder)) return IN_USE;
    try {
      this.#claims.set(session, {
        description: readAgent(extensions, this.#options.limits),
        stated: extensions,
      });
    } catch (error) {
      return {
        code: 'UNKNOWN',
        message: `the agent's description: ${(error as Error).message}`,
        closeCode: CloseCode.BAD_FRAME,
      };
    }
    return undefined;
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
    const version = ++this.#version;
    const agent = { id, address, party, session, ...introduction, isSuspended: false, version };
    this.#add(agent);
    this.cohort?.handlePresent(agent);
    session.listeners.add('state', (state) => {
      if (state === 'closing' || state === 'closed') this.leave(session);
      else this.#handleFlap(agent);
    });
  }

  leave(session: ServerEndpoint): void {
    const agent = this.agentOf(session);
    if (agent === undefined) return;
    this.#remove(agent);
    this.cohort?.handleLeft(agent);
  }

  /** An agent of another node is present, or has changed. */
  addRemote(session: RelayTarget, description: AgentDescription, isSuspended: boolean): void {
    const { principal = '', agentId: id = '' } = session;
    const party = Object.freeze({ id, principal });
    const address = this.addressOf(principal, id);
    const version = ++this.#version;
    this.#add({ id, address, party, session, description, stated: undefined, isSuspended, version });
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
    this.#announce(agent);
  }

  #remove(agent: Agent): void {
    const { id, address, party } = agent;
    const agents = this.#principals.get(party.principal);
    agents?.delete(id);
    if (agents?.size === 0) this.#principals.delete(party.principal);
    this.#byAddress.delete(address);
    this.#announce(agent);
  }

  /** Announces agents whose state differs from the one that was announced last. */
  handleTick(): void {
    const flapping = this.#flapping;
    this.#flapping = new Set();
    for (const agent of flapping) {
      const isSuspended = agent.session.state === 'suspended';
      if (isSuspended === agent.isSuspended || this.agentOf(agent.session) !== agent) continue;
      agent.isSuspended = isSuspended;
      agent.version = ++this.#version;
      this.#announce(agent);
      this.cohort?.handlePresent(agent);
    }
  }

  /** The handler for a session that queries the directory. */
  handlerFor(asker: ServerEndpoint): RequestHandler {
    return (request, { signal }) => this.#answer(asker, request.json<Partial<DirectoryQuery>>(), signal);
  }

  async *#answer(
    asker: ServerEndpoint,
    { watch = false }: Partial<DirectoryQuery>,
    signal: AbortSignal,
  ): AsyncGenerator<{ json: unknown }> {
    const { principal = '' } = asker;
    const watcher: Watcher = { principal, sent: new Map(), dirty: new Set(), signal, wake: () => {} };
    const onAbort = () => watcher.wake();
    if (watch === true) this.#watch(asker, watcher);
    signal.addEventListener('abort', onAbort);
    try {
      const addresses = this.#visibleTo(principal);
      for (let i = 0; i === 0 || i < addresses.length; i += PIECE) {
        const piece = addresses.slice(i, i + PIECE);
        const news = this.#newsOf(asker, watcher, piece, i + PIECE >= addresses.length);
        yield { json: newsFields(news) };
      }
      while (watch === true && !signal.aborted) {
        if (watcher.dirty.size === 0) {
          await new Promise<void>((resolve) => {
            watcher.wake = resolve;
          });
          continue;
        }
        const changed = [...watcher.dirty].slice(0, PIECE);
        for (const address of changed) watcher.dirty.delete(address);
        const news = this.#newsOf(asker, watcher, changed, true);
        if (news.present.length + news.gone.length > 0) yield { json: newsFields(news) };
      }
    } finally {
      signal.removeEventListener('abort', onAbort);
      if (this.#watchers.get(asker) === watcher) this.#watchers.delete(asker);
    }
  }

  /** @throws {ProtocolError} `too_many_streams` if the session is already watching. */
  #watch(asker: ServerEndpoint, watcher: Watcher): void {
    const other = this.#watchers.get(asker);
    if (other !== undefined && !other.signal.aborted) {
      throw new ProtocolError('too_many_streams', 'this session is already watching the directory');
    }
    this.#watchers.set(asker, watcher);
  }

  /** The news about these agents that the watcher does not have yet; from now on it counts as having them. */
  #newsOf(
    asker: ServerEndpoint,
    watcher: Watcher,
    addresses: readonly string[],
    isComplete: boolean,
  ): DirectoryNews {
    const { principal, sent } = watcher;
    const isWatching = this.#watchers.get(asker) === watcher;
    const own = this.agentOf(asker);
    const from = own?.party ?? { id: undefined, principal };
    const present: AgentInfo[] = [];
    const gone: string[] = [];
    for (const address of addresses) {
      const agent = this.#byAddress.get(address);
      const isVisible =
        agent !== undefined && agent.session !== asker && this.#options.policy.mayList(from, agent.party);
      const known = sent.get(address);
      if (!isVisible) {
        if (known === undefined) continue;
        sent.delete(address);
        gone.push(known.name);
      } else if (known?.version !== agent.version) {
        const name = agent.party.principal === principal ? agent.id : address;
        sent.set(address, { name, version: agent.version });
        present.push(infoOf(agent, name, own, isWatching));
      }
    }
    return { present, gone, isComplete };
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
    const { key } = this.#options;
    return `~${createHmac('sha256', key).update(ADDRESS).update(name).digest('base64url')}`;
  }

  /** A tick of the directory has failed; no session is at fault. */
  crash(error: unknown): void {
    this.#options.logger.error({ event: 'agents.failed', err: loggable(error) }, 'notifying watchers failed');
  }

  #handleFlap(agent: Agent): void {
    if (this.#flapping.size === 0) this.#options.clock.soon(this);
    this.#flapping.add(agent);
  }

  #announce({ address, party }: Agent): void {
    const isPresent = this.#byAddress.has(address);
    const { isDecided } = this.#options.policy;
    for (const { principal, sent, dirty, wake } of this.#watchers.values()) {
      if (!isDecided && principal !== party.principal) continue;
      // Skip an agent that came and went between two pieces of news.
      if (isPresent || sent.has(address)) dirty.add(address);
      else dirty.delete(address);
      if (dirty.size > 0) wake();
    }
  }
}

function replaced(id: string): ProtocolError {
  return new ProtocolError('taken_over', `a newer session is agent ${id}`);
}

/** So that no signature is valid for something else. */
const ADDRESS = 'parlance agent 1\n';

const IN_USE: Refusal = {
  code: 'SECURITY_POLICY',
  message: 'another session of this principal already has this agent ID',
  closeCode: CloseCode.FORBIDDEN,
};
