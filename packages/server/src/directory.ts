import {
  type AgentDescription,
  type AgentInfo,
  CloseCode,
  type Compatibility,
  type DirectoryNews,
  type DirectoryQuery,
  type Endpoint,
  isAgentId,
  type Limits,
  type Logger,
  type ModelIdentity,
  newsFields,
  ProtocolError,
  type RequestHandler,
  readAgent,
  resolveCompatibility,
  type StringMap,
} from '@parlance/protocol';
import type { Refusal } from './admission.js';
import type { Party } from './relay/policy.js';

/** An agent that is there: one session under one ID. */
export interface Agent {
  readonly id: string;
  readonly party: Party;
  readonly session: Endpoint;
  readonly description: AgentDescription;
  /** Grows whenever anything changes that others are told. */
  version: number;
}

export interface DirectoryOptions {
  readonly onConflict: 'takeOver' | 'refuse';
  /** Whether a session may know of an agent. */
  readonly mayList: (from: Party, to: Agent) => boolean;
  readonly limits: Limits;
  readonly logger: Logger;
}

/** A session that wants to hear of changes, and what it has been told. */
interface Watcher {
  readonly told: Map<string, number>;
  /** Agents that it may have to be told of. */
  readonly dirty: Set<string>;
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
 */
export class Directory {
  readonly #options: DirectoryOptions;
  readonly #agents = new Map<string, Agent>();
  readonly #claims = new WeakMap<Endpoint, AgentDescription>();
  readonly #watchers = new Set<Watcher>();
  #version = 0;

  constructor(options: DirectoryOptions) {
    this.#options = options;
  }

  get(id: string): Agent | undefined {
    return this.#agents.get(id);
  }

  /** The agent that a session is. */
  agentOf(session: Endpoint): Agent | undefined {
    const agent = session.agentId === undefined ? undefined : this.#agents.get(session.agentId);
    return agent?.session === session ? agent : undefined;
  }

  /** Before ACCEPT: whether the session may be the agent that it has authenticated as. */
  claim(session: Endpoint, extensions: StringMap): Refusal | undefined {
    const { agentId } = session;
    if (agentId === undefined || extensions['agents'] === undefined) return undefined;
    if (!isAgentId(agentId)) {
      this.#options.logger.warn(
        { event: 'agent.unaddressable', agentId },
        'an agent ID of this form cannot be addressed',
      );
      return undefined;
    }
    const holder = this.#agents.get(agentId);
    if (holder !== undefined && !this.#mayTakeOver(session, holder)) return IN_USE;
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
  join(session: Endpoint): void {
    const description = this.#claims.get(session);
    if (description === undefined || session.negotiated.extensions['agents'] === undefined) return;
    const id = session.agentId as string;
    const holder = this.#agents.get(id);
    if (holder !== undefined && !this.#mayTakeOver(session, holder)) {
      session.abort(new ProtocolError('forbidden', IN_USE.message));
      return;
    }
    if (holder !== undefined) {
      this.leave(holder.session);
      holder.session.abort(new ProtocolError('taken_over', `a newer session is agent ${id}`));
    }
    const party = Object.freeze({ id, principal: session.principal ?? '' });
    this.#agents.set(id, { id, party, session, description, version: ++this.#version });
    this.#announce(id);
    session.on('state', (state) => {
      if (state === 'closing' || state === 'closed') this.leave(session);
      else this.#touch(session);
    });
  }

  leave(session: Endpoint): void {
    const agent = this.agentOf(session);
    if (agent === undefined) return;
    this.#agents.delete(agent.id);
    this.#announce(agent.id);
  }

  /** Answers a session that asks who is there. */
  handlerFor(asker: Endpoint): RequestHandler {
    return (request, { signal }) => this.#answer(asker, request.json<Partial<DirectoryQuery>>(), signal);
  }

  async *#answer(
    asker: Endpoint,
    { watch = false }: Partial<DirectoryQuery>,
    signal: AbortSignal,
  ): AsyncGenerator<{ json: unknown }> {
    const watcher: Watcher = { told: new Map(), dirty: new Set(), wake: () => {} };
    const onAbort = () => watcher.wake();
    if (watch === true) this.#watchers.add(watcher);
    signal.addEventListener('abort', onAbort);
    try {
      const ids = [...this.#agents.keys()];
      for (let i = 0; i === 0 || i < ids.length; i += PIECE) {
        const news = this.#newsOf(asker, watcher, ids.slice(i, i + PIECE), i + PIECE >= ids.length);
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
        for (const id of changed) watcher.dirty.delete(id);
        const news = this.#newsOf(asker, watcher, changed, true);
        if (news.present.length + news.gone.length > 0) yield { json: newsFields(news) };
      }
    } finally {
      signal.removeEventListener('abort', onAbort);
      this.#watchers.delete(watcher);
    }
  }

  /** What a watcher has to be told of these agents, and is considered told with that. */
  #newsOf(asker: Endpoint, { told }: Watcher, ids: readonly string[], isComplete: boolean): DirectoryNews {
    const own = this.agentOf(asker);
    const from = own?.party ?? { id: undefined, principal: asker.principal ?? '' };
    const present: AgentInfo[] = [];
    const gone: string[] = [];
    for (const id of ids) {
      const agent = this.#agents.get(id);
      const isVisible = agent !== undefined && agent.session !== asker && this.#options.mayList(from, agent);
      if (!isVisible) {
        if (told.delete(id)) gone.push(id);
      } else if (told.get(id) !== agent.version) {
        told.set(id, agent.version);
        present.push(infoOf(agent, own));
      }
    }
    return { present, gone, isComplete };
  }

  #mayTakeOver(session: Endpoint, holder: Agent): boolean {
    return this.#options.onConflict === 'takeOver' && holder.party.principal === session.principal;
  }

  #touch(session: Endpoint): void {
    const agent = this.agentOf(session);
    if (agent === undefined) return;
    agent.version = ++this.#version;
    this.#announce(agent.id);
  }

  #announce(id: string): void {
    for (const { told, dirty, wake } of this.#watchers) {
      // Who came and went between two pieces of news is no news.
      if (this.#agents.has(id) || told.has(id)) dirty.add(id);
      else dirty.delete(id);
      if (dirty.size > 0) wake();
    }
  }
}

const IN_USE: Refusal = {
  code: 'SECURITY_POLICY',
  message: 'another session has this agent ID',
  closeCode: CloseCode.FORBIDDEN,
};

function infoOf({ id, session, description }: Agent, own: Agent | undefined): AgentInfo {
  const { algorithms, encoding } = session.negotiated;
  return {
    id,
    state: session.state === 'suspended' ? 'suspended' : 'connected',
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
