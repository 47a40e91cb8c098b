import { type AgentInfo, type Message, ProtocolError, type RequestHandler } from '@parlance/protocol';
import {
  type DirectoryChanges,
  type DirectoryQuery,
  decodeChanges,
  newsFields,
  whenAborted,
} from '@parlance/protocol/internal';
import type { ServerEndpoint } from '../session/endpoint.js';
import { type Agent, infoOf } from './agent.js';
import type { Policy } from './policy.js';
import type { RelayTarget } from './target.js';

/** The directory as watchers use it. */
export interface WatchersHost {
  readonly policy: Pick<Policy, 'mayList' | 'isDecided'>;
  agentAt(address: string): Agent | undefined;
  agentOf(session: RelayTarget): Agent | undefined;
  /** Addresses of the agents that a session of `principal` may be allowed to see. */
  visibleTo(principal: string): readonly string[];
  addressOf(principal: string, id: string): string;
}

/** A watch that another node continues: the stream that it answers, and the version that was sent of each agent. */
export interface WatchState {
  readonly stream: number;
  readonly sent: readonly (readonly [name: string, version: string])[];
}

/** A session that watches for changes, and what it has been sent. Agents are identified by address. */
interface Watcher {
  readonly stream: number;
  readonly principal: string;
  readonly sent: Map<string, { readonly name: string; readonly version: string }>;
  /** Agents that may have changed for it. */
  readonly dirty: Set<string>;
  readonly signal: AbortSignal;
  /** All that it was sent is with its session, and it waits for changes. */
  isIdle: boolean;
  /** Changes wait, because its session may move. */
  isHeld: boolean;
  wake: () => void;
}

/**
 * The names that a node which has died has sent to a watcher. Its versions mean nothing here. `undefined` if the
 * watcher has not received the whole first list.
 */
function namesIn(said: readonly Message[]): WatchState['sent'] | undefined {
  const names = new Set<string>();
  let isComplete = false;
  for (const part of said) {
    const news = decodeChanges(part);
    for (const { id } of news.present) names.add(id);
    for (const name of news.gone) names.delete(name);
    isComplete ||= news.isComplete;
  }
  return isComplete ? Array.from(names, (name) => [name, ''] as const) : undefined;
}

/** Agents in one part of a reply. */
const PIECE = 32;

/**
 * The sessions that ask which agents there are. A watcher is sent the latest state of each agent that has changed, only
 * as fast as it reads.
 */
export class Watchers {
  readonly #host: WatchersHost;
  /** At most one per session. */
  readonly #watchers = new Map<ServerEndpoint, Watcher>();

  constructor(host: WatchersHost) {
    this.#host = host;
  }

  /** The handler for a request of a session. */
  handlerFor(asker: ServerEndpoint, stream: number): RequestHandler {
    return (request, context) => {
      const { signal, yielded = [] } = context;
      const { watch = false } = request.json<Partial<DirectoryQuery>>();
      if (watch !== true) return this.#answer(asker, stream, false, signal);
      const sent = namesIn(yielded);
      if (sent === undefined) return this.#answer(asker, stream, true, signal);
      return this.resumed(asker, { stream, sent })(request, context);
    };
  }

  /** The handler that continues a watch of another node. */
  resumed(asker: ServerEndpoint, { stream, sent }: WatchState): RequestHandler {
    return (_request, { signal }) => {
      const { principal = '' } = asker;
      const watcher = this.#create(asker, stream, signal);
      for (const [name, version] of sent) {
        const address = name.startsWith('~') ? name : this.#host.addressOf(principal, name);
        watcher.sent.set(address, { name, version });
        watcher.dirty.add(address);
      }
      for (const address of this.#host.visibleTo(principal)) watcher.dirty.add(address);
      this.#watch(asker, watcher);
      return this.#follow(asker, watcher);
    };
  }

  /** An agent has joined, left or changed. */
  announce({ address, party }: Agent): void {
    const isPresent = this.#host.agentAt(address) !== undefined;
    const { isDecided } = this.#host.policy;
    for (const { principal, sent, dirty, wake } of this.#watchers.values()) {
      if (!isDecided && principal !== party.principal) continue;
      // Skip an agent that came and went between two pieces of news.
      if (isPresent || sent.has(address)) dirty.add(address);
      else dirty.delete(address);
      if (dirty.size > 0) wake();
    }
  }

  // --- of a session that moves

  /** Changes wait from now on. */
  hold(asker: ServerEndpoint): void {
    const watcher = this.#watchers.get(asker);
    if (watcher !== undefined) watcher.isHeld = true;
  }

  release(asker: ServerEndpoint): void {
    const watcher = this.#watchers.get(asker);
    if (watcher === undefined) return;
    watcher.isHeld = false;
    watcher.wake();
  }

  isQuiet(asker: ServerEndpoint): boolean {
    return this.#watchers.get(asker)?.isIdle !== false;
  }

  stateOf(asker: ServerEndpoint): WatchState | undefined {
    const watcher = this.#watchers.get(asker);
    if (watcher === undefined || watcher.signal.aborted) return undefined;
    const sent = Array.from(watcher.sent.values(), ({ name, version }) => [name, version] as const);
    return { stream: watcher.stream, sent };
  }

  async *#answer(
    asker: ServerEndpoint,
    stream: number,
    isWatch: boolean,
    signal: AbortSignal,
  ): AsyncGenerator<{ json: unknown }> {
    const watcher = this.#create(asker, stream, signal);
    if (isWatch) this.#watch(asker, watcher);
    try {
      const addresses = this.#host.visibleTo(watcher.principal);
      for (let i = 0; i === 0 || i < addresses.length; i += PIECE) {
        const piece = addresses.slice(i, i + PIECE);
        const news = this.#changesOf(asker, watcher, piece, i + PIECE >= addresses.length);
        yield { json: newsFields(news) };
      }
      if (isWatch) yield* this.#follow(asker, watcher);
    } finally {
      this.#forget(asker, watcher);
    }
  }

  async *#follow(asker: ServerEndpoint, watcher: Watcher): AsyncGenerator<{ json: unknown }> {
    const { signal, dirty } = watcher;
    const free = whenAborted(signal, () => watcher.wake());
    try {
      while (!signal.aborted) {
        if (dirty.size === 0 || watcher.isHeld) {
          watcher.isIdle = true;
          await new Promise<void>((resolve) => {
            watcher.wake = resolve;
          });
          watcher.isIdle = watcher.isHeld;
          continue;
        }
        const changed = [...dirty].slice(0, PIECE);
        for (const address of changed) dirty.delete(address);
        const news = this.#changesOf(asker, watcher, changed, true);
        if (news.present.length + news.gone.length > 0) yield { json: newsFields(news) };
      }
    } finally {
      free();
      this.#forget(asker, watcher);
    }
  }

  #create({ principal = '' }: ServerEndpoint, stream: number, signal: AbortSignal): Watcher {
    const waiting = { isIdle: false, isHeld: false, wake: () => {} };
    return { stream, principal, sent: new Map(), dirty: new Set(), signal, ...waiting };
  }

  #forget(asker: ServerEndpoint, watcher: Watcher): void {
    if (this.#watchers.get(asker) === watcher) this.#watchers.delete(asker);
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
  #changesOf(
    asker: ServerEndpoint,
    watcher: Watcher,
    addresses: readonly string[],
    isComplete: boolean,
  ): DirectoryChanges {
    const { agentAt, policy } = this.#host;
    const { principal, sent } = watcher;
    const isWatching = this.#watchers.get(asker) === watcher;
    const own = this.#host.agentOf(asker);
    const from = own?.party ?? { id: undefined, principal };
    const present: AgentInfo[] = [];
    const gone: string[] = [];
    for (const address of addresses) {
      const agent = agentAt(address);
      const isVisible = agent !== undefined && agent.session !== asker && policy.mayList(from, agent.party);
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
}
