import { createHmac, randomBytes } from 'node:crypto';
import {
  type AgentInfo,
  CloseCode,
  type Compatibility,
  type Limits,
  type Logger,
  type ModelIdentity,
  ProtocolError,
  type RequestHandler,
  resolveCompatibility,
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
import type { AgentName, Party, Policy } from './policy.js';

/** An agent that is there: one session under one ID of one principal. */
export interface Agent {
  readonly id: string;
  /** The name that other principals know it by. */
  readonly address: string;
  readonly party: Party;
  readonly session: ServerEndpoint;
  readonly description: AgentDescription;
  /** Whether others have been told that its connection is lost. */
  isSuspended: boolean;
  /** Grows whenever anything changes that others are told. */
  version: number;
}

export interface DirectoryOptions {
  readonly onConflict: 'takeOver' | 'refuse';
  /** Says whether a session may know of an agent. */
  readonly policy: Pick<Policy, 'mayList' | 'isDecided'>;
  readonly limits: Limits;
  readonly clock: Pick<Clock, 'soon'>;
  readonly logger: Logger;
}

/** A session that wants to hear of changes, and what it has been told. Agents go by their addresses. */
interface Watcher {
  readonly principal: string;
  readonly told: Map<string, { readonly name: string; readonly version: number }>;
  /** Agents that it may have to be told of. */
  readonly dirty: Set<string>;
  readonly signal: AbortSignal;
  wake: () => void;
}

/** Agents in one piece of an answer. */
const PIECE = 32;

/**
 * Who is there: the sessions of a server that have an agent ID and speak the `agents` extension.
 *
 * A watcher is told the latest state of whoever has changed, and only as fast as it reads: what is kept
 * for it is at most one entry for each agent that is there or that it has been told of, however many
 * join and leave.
 *
 * An agent ID belongs to its principal. Others know the agent by an address that tells nothing, and that is
 * the same whenever the agent is there: it is made from principal and ID with a key that only this server has.
 */
export class Directory implements Sweepable {
  readonly #options: DirectoryOptions;
  readonly #key = randomBytes(32);
  /** By principal, then by ID. */
  readonly #principals = new Map<string, Map<string, Agent>>();
  readonly #byAddress = new Map<string, Agent>();
  readonly #claims = new WeakMap<ServerEndpoint, AgentDescription>();
  /** One a session. */
  readonly #watchers = new Map<ServerEndpoint, Watcher>();
  /** Agents whose connection was lost or came back, which is told in the end and not in between. */
  #flapping = new Set<Agent>();
  #version = 0;

  constructor(options: DirectoryOptions) {
    this.#options = options;
  }

  /**
   * The agent that is meant by one of `principal`.
   *
   * @param name an ID of its own principal, an address, or an agent of any principal.
   */
  find(principal: string, name: string | AgentName): Agent | undefined {
    if (typeof name === 'object') return this.#get(name.principal, name.id);
    return isAgentAddress(name) ? this.#byAddress.get(name) : this.#get(principal, name);
  }

  /** The agent that a session is. */
  agentOf(session: ServerEndpoint): Agent | undefined {
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
        'an agent ID of this form cannot be addressed',
      );
      return undefined;
    }
    const holder = this.#get(session.principal ?? '', agentId);
    if (holder !== undefined && this.#options.onConflict === 'refuse') return IN_USE;
    try {
      this.#claims.set(session, readAgent(extensions, this.#options.limits));
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
    const description = this.#claims.get(session);
    if (description === undefined || session.negotiated.extensions['agents'] === undefined) return;
    const { principal = '' } = session;
    const id = session.agentId as string;
    const holder = this.#get(principal, id);
    if (holder !== undefined && this.#options.onConflict === 'refuse') {
      session.abort(new ProtocolError('forbidden', IN_USE.message));
      return;
    }
    if (holder !== undefined) {
      this.leave(holder.session);
      holder.session.abort(new ProtocolError('taken_over', `a newer session is agent ${id}`));
    }
    const party = Object.freeze({ id, principal });
    const address = this.#addressOf(principal, id);
    const version = ++this.#version;
    const agent = { id, address, party, session, description, isSuspended: false, version };
    const agents = this.#principals.get(principal) ?? new Map<string, Agent>();
    this.#principals.set(principal, agents);
    agents.set(id, agent);
    this.#byAddress.set(address, agent);
    this.#announce(agent);
    session.listeners.add('state', (state) => {
      if (state === 'closing' || state === 'closed') this.leave(session);
      else this.#handleFlap(agent);
    });
  }

  leave(session: ServerEndpoint): void {
    const agent = this.agentOf(session);
    if (agent === undefined) return;
    const { id, address, party } = agent;
    const agents = this.#principals.get(party.principal);
    agents?.delete(id);
    if (agents?.size === 0) this.#principals.delete(party.principal);
    this.#byAddress.delete(address);
    this.#announce(agent);
  }

  /** Tells of agents whose state has changed and is another one than was told last. */
  handleTick(): void {
    const flapping = this.#flapping;
    this.#flapping = new Set();
    for (const agent of flapping) {
      const isSuspended = agent.session.state === 'suspended';
      if (isSuspended === agent.isSuspended || this.agentOf(agent.session) !== agent) continue;
      agent.isSuspended = isSuspended;
      agent.version = ++this.#version;
      this.#announce(agent);
    }
  }

  /** Answers a session that asks who is there. */
  handlerFor(asker: ServerEndpoint): RequestHandler {
    return (request, { signal }) => this.#answer(asker, request.json<Partial<DirectoryQuery>>(), signal);
  }

  async *#answer(
    asker: ServerEndpoint,
    { watch = false }: Partial<DirectoryQuery>,
    signal: AbortSignal,
  ): AsyncGenerator<{ json: unknown }> {
    const { principal = '' } = asker;
    const watcher: Watcher = { principal, told: new Map(), dirty: new Set(), signal, wake: () => {} };
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

  /** @throws {ProtocolError} `too_many_streams` if the session watches already. */
  #watch(asker: ServerEndpoint, watcher: Watcher): void {
    const other = this.#watchers.get(asker);
    if (other !== undefined && !other.signal.aborted) {
      throw new ProtocolError('too_many_streams', 'this session watches the directory already');
    }
    this.#watchers.set(asker, watcher);
  }

  /** What a watcher has to be told of these agents, and is considered told with that. */
  #newsOf(
    asker: ServerEndpoint,
    watcher: Watcher,
    addresses: readonly string[],
    isComplete: boolean,
  ): DirectoryNews {
    const { principal, told } = watcher;
    const isWatching = this.#watchers.get(asker) === watcher;
    const own = this.agentOf(asker);
    const from = own?.party ?? { id: undefined, principal };
    const present: AgentInfo[] = [];
    const gone: string[] = [];
    for (const address of addresses) {
      const agent = this.#byAddress.get(address);
      const isVisible =
        agent !== undefined && agent.session !== asker && this.#options.policy.mayList(from, agent.party);
      const known = told.get(address);
      if (!isVisible) {
        if (known === undefined) continue;
        told.delete(address);
        gone.push(known.name);
      } else if (known?.version !== agent.version) {
        const name = agent.party.principal === principal ? agent.id : address;
        told.set(address, { name, version: agent.version });
        present.push(infoOf(agent, name, own, isWatching));
      }
    }
    return { present, gone, isComplete };
  }

  /** Addresses of the agents that one of `principal` may possibly see. */
  #visibleTo(principal: string): string[] {
    if (this.#options.policy.isDecided) return [...this.#byAddress.keys()];
    return Array.from(this.#principals.get(principal)?.values() ?? [], ({ address }) => address);
  }

  /** Not to be guessed, and no agent ID: those have no `~`. */
  #addressOf(principal: string, id: string): string {
    // As JSON, so that no two pairs are one text.
    const name = JSON.stringify([principal, id]);
    return `~${createHmac('sha256', this.#key).update(name).digest('base64url')}`;
  }

  /** What is due of the directory has failed; no session is at fault. */
  crash(error: unknown): void {
    this.#options.logger.error({ event: 'agents.failed', err: loggable(error) }, 'telling watchers failed');
  }

  #handleFlap(agent: Agent): void {
    if (this.#flapping.size === 0) this.#options.clock.soon(this);
    this.#flapping.add(agent);
  }

  #announce({ address, party }: Agent): void {
    const isThere = this.#byAddress.has(address);
    const { isDecided } = this.#options.policy;
    for (const { principal, told, dirty, wake } of this.#watchers.values()) {
      if (!isDecided && principal !== party.principal) continue;
      // Who came and went between two pieces of news is no news.
      if (isThere || told.has(address)) dirty.add(address);
      else dirty.delete(address);
      if (dirty.size > 0) wake();
    }
  }
}

const IN_USE: Refusal = {
  code: 'SECURITY_POLICY',
  message: 'another session of this principal has this agent ID',
  closeCode: CloseCode.FORBIDDEN,
};

/**
 * @param name the name that the asking session knows it by.
 * @param isWatching it is told the state that all watchers were told; a change of that follows.
 */
function infoOf(
  { isSuspended, session, description }: Agent,
  name: string,
  own: Agent | undefined,
  isWatching: boolean,
): AgentInfo {
  const { algorithms, encoding } = session.negotiated;
  const isAway = isWatching ? isSuspended : session.state === 'suspended';
  return {
    id: name,
    address: name,
    state: isAway ? 'suspended' : 'connected',
    algorithms,
    encodings: encoding === null ? [] : [encoding],
    metadata: description.metadata,
    identity: description.identity,
    compatibility: compatibilityOf(own?.description.identity, description.identity),
  };
}

function compatibilityOf(local: ModelIdentity | undefined, remote: ModelIdentity | undefined): Compatibility {
  if (local !== undefined && remote !== undefined) return resolveCompatibility(local, remote);
  return { mode: 'json', mapId: '', path: 'json_fallback' };
}
