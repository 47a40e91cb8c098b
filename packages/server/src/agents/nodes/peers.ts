import type { Logger, Undelivered } from '@parlance/protocol';
import {
  createBodyCoder,
  incarnationOf,
  loadedEncodings,
  loggable,
  type MemoryBudget,
  systemClock,
} from '@parlance/protocol/internal';
import { limitedLog } from '../../base/limited-log.js';
import type { Link } from '../../cluster/link/link.js';
import type { Links } from '../../cluster/link/links.js';
import type { ResolvedServerOptions } from '../../server/options.js';
import type { ServerEndpoint } from '../../session/endpoint.js';
import type { Agent } from '../agent.js';
import type { Directory } from '../directory.js';
import type { Relay } from '../relay.js';
import type { RelayTarget } from '../target.js';
import { IncomingRelay } from './incoming.js';
import type { Inflow } from './inflows.js';
import { AGENTS } from './messages.js';
import { MovedSource } from './moved-source.js';
import { OutgoingRelay } from './outgoing.js';
import type { RemoteAgent, RemoteHost } from './remote-session.js';
import { RemoteTarget, type Route, type TargetHost } from './remote-target.js';

/** Ticks of a second within which the former node of a session says that it keeps account: it may have to dial. */
const MAX_ACCOUNT_TICKS = 15;

export interface RelayPeersOptions {
  /** Of this node. */
  readonly incarnation: string;
  readonly options: Pick<ResolvedServerOptions, 'limits' | 'security'> & { readonly logger: Logger };
  readonly memory: MemoryBudget;
  readonly directory: Directory;
  readonly relay: Relay;
  readonly findSession: (sessionId: string) => ServerEndpoint | undefined;
  readonly isNodeAlive: (incarnation: string) => boolean;
  readonly links: Links;
}

/** The account that the agent's former node keeps of its messages, as the agent's present node sees it. */
interface Account {
  /** The former node of the agent. */
  readonly from: string;
  readonly inflow: Inflow;
  readonly onReport: (report: Undelivered) => void;
  /** @param isComplete whether the former node has reported everything that it did not know to have arrived. */
  readonly onSettled: (isComplete: boolean) => void;
  isBound: boolean;
  /** Ticks since the session has come. */
  age: number;
}

/** Messages between agents of this node and of others, on the links between the nodes. */
export class RelayPeers {
  readonly #logger: Logger;
  readonly #options: RelayPeersOptions;
  readonly #outgoing = new Map<string, OutgoingRelay>();
  /** With the other node. */
  readonly #incoming = new Map<IncomingRelay, string>();
  readonly #targets = new Set<RemoteTarget>();
  /** Of agents that have moved away: where what still comes for them goes. */
  readonly #forwarded = new Map<string, RemoteTarget>();
  readonly #movedSources = new Set<MovedSource>();
  /** Of agents that have moved here, by session. */
  readonly #accounts = new Map<string, Account>();
  #lastRef = 0;

  constructor(options: RelayPeersOptions) {
    this.#options = options;
    this.#logger = limitedLog(options.options.logger);
    options.relay.onEnded = (session) => {
      for (const outgoing of this.#outgoing.values()) outgoing.handleEnded(session);
      this.#tellGone(session);
    };
    options.links.serve(AGENTS, (link) => this.#accept(link));
  }

  /** The stand-in for an agent of another node. */
  targetOf(node: string, agent: RemoteAgent): RemoteTarget {
    return this.#createTarget(agent, node, this.#routeTo(node));
  }

  // --- agents that move

  /**
   * The session of an agent of this node continues elsewhere from its record, or will.
   *
   * @returns the target that holds messages to it until its node is known.
   */
  handleAway({ session, former }: Agent): RemoteTarget {
    for (const outgoing of this.#outgoing.values()) outgoing.handleEnded(session);
    const { id: sessionId, principal = '', agentId = '', negotiated, retentionMs } = session;
    const agent = { sessionId, principal, agentId, negotiated, retentionMs };
    // Messages that have not been written since it came here wait in its former stand-in.
    const target = former instanceof RemoteTarget ? former : this.holdFor(agent);
    target.onSettled = undefined;
    target.state = 'suspended';
    this.#forwarded.set(target.id, target);
    for (const { inflows } of this.#incoming.keys()) inflows.beginAgain(target.id);
    return target;
  }

  /** The session of an agent that no node has had any more is here. */
  handleTakenOver(sessionId: string): void {
    this.#forwarded.delete(sessionId);
    this.releaseOthers(sessionId);
  }

  /** Holds what is for an agent of this node, while nothing is known of where it will be. */
  holdFor(agent: RemoteAgent): RemoteTarget {
    return this.#createTarget(agent, this.#options.incarnation, undefined);
  }

  /** Sends messages for an agent to another node, or to this one. */
  reroute(target: RelayTarget, node: string = this.#options.incarnation): void {
    if (target instanceof RemoteTarget) target.reroute(this.#routeTo(node));
  }

  /**
   * An agent of this node is at another one now.
   *
   * @param session its session here.
   * @param target stands for it, and holds what came meanwhile.
   * @param handOver gives messages that are not confirmed to `target`, and reports about the agent's own to the stub.
   */
  handleMoved(
    session: RelayTarget,
    target: RemoteTarget,
    node: string,
    handOver: (stub: MovedSource) => { readonly isPending: boolean; readonly written: number },
  ): void {
    for (const outgoing of this.#outgoing.values()) outgoing.handleEnded(session);
    const outgoing = this.#outgoingTo(node);
    const stub = new MovedSource(agentOf(target), this.#host(node), outgoing);
    const way = ++this.#lastRef;
    // The other node reports which messages to the session that were written here are confirmed. This node reports
    // which messages of the session are lost.
    outgoing.keepAccount(stub, way, target);
    const { isPending, written } = handOver(stub);
    this.#forwarded.set(target.id, target);
    if (isPending) this.#movedSources.add(stub);
    else stub.settle();
    target.start(this.#routeTo(node), way, written);
  }

  /** An agent is here now; its former node keeps account of messages of and to it. */
  expectAccount(sessionId: string, account: Omit<Account, 'isBound' | 'age'>): void {
    this.#forwarded.delete(sessionId);
    this.#accounts.set(sessionId, { ...account, isBound: false, age: 0 });
  }

  #tellGone(session: RelayTarget): void {
    for (const { inflows } of this.#incoming.keys()) inflows.end(session.id);
    this.#accounts.delete(session.id);
  }

  #createTarget(agent: RemoteAgent, node: string, route: Route | undefined): RemoteTarget {
    const host: TargetHost = {
      ...this.#host(node),
      newRef: () => ++this.#lastRef,
      onDoubt: (doubtful, count) => this.#options.relay.messages.handleDoubt(doubtful, count),
      onStale: (stale, place) => this.#options.relay.messages.handleStale(stale, place),
    };
    const target = new RemoteTarget(agent, host, route);
    this.#targets.add(target);
    return target;
  }

  /** The agent is not known any more: its session is over. */
  forget(target: RelayTarget): void {
    if (target instanceof RemoteTarget) {
      this.#targets.delete(target);
      target.isDropped = true;
      // Otherwise its node says which messages it had.
      if (!target.hasLeg) {
        this.#options.relay.handleEnded(target);
        target.reset();
      }
    }
    if (this.#options.findSession(target.id) === undefined)
      this.#options.relay.messages.forgetSender(target.id);
    if (this.#forwarded.get(target.id) !== target) return;
    this.#forwarded.delete(target.id);
    // Those that wait to hear where it is need not wait any more.
    for (const { inflows } of this.#incoming.keys()) inflows.end(target.id);
  }

  #routeTo(node: string): Route {
    const { incarnation, isNodeAlive } = this.#options;
    return {
      connect: () => this.#outgoingTo(node),
      get isAlive() {
        return node === incarnation || isNodeAlive(node);
      },
    };
  }

  #find(sessionId: string): Agent | undefined {
    const session = this.#options.findSession(sessionId);
    return session && this.#options.directory.agentOf(session);
  }

  /** @param isOwn for what this node has held itself. */
  #accessTo(sessionId: string, isOwn: boolean): 'open' | 'held' | 'gone' {
    const agent = this.#find(sessionId);
    // Its next node tells all others where it is.
    if (agent === undefined) return this.#forwarded.has(sessionId) ? 'held' : 'gone';
    return !isOwn && agent.isHeld ? 'held' : 'open';
  }

  /** Other nodes send a session of this one nothing that is new. @param isCut what they still send is refused. */
  holdOthers(sessionId: string, isCut = false): void {
    for (const [{ inflows }, node] of this.#incoming)
      if (isCut || node !== this.#options.incarnation) inflows.hold(sessionId, isCut);
  }

  /** They do not, and no account of the session is open. */
  isHeldByOthers(sessionId: string): boolean {
    if (this.#accounts.has(sessionId)) return false;
    for (const [{ inflows }, node] of this.#incoming)
      if (node !== this.#options.incarnation && !inflows.isHolding(sessionId)) return false;
    return true;
  }

  releaseOthers(sessionId: string): void {
    for (const { inflows } of this.#incoming.keys()) inflows.release(sessionId);
  }

  /** The fate of messages of a session that has come here will stay unknown if it is unknown now. */
  giveUpAccount(sessionId: string): void {
    this.#closeAccount(sessionId, false);
  }

  /** A node speaks for sessions that have begun there, and for agents that are known, as those may have moved. */
  #maySpeakFor(node: string, { sessionId, principal, agentId }: RemoteAgent): boolean | undefined {
    if (node === this.#options.incarnation || incarnationOf(sessionId) === node) return true;
    // Only this node speaks for a session that is here, unless the session is about to leave. A recorded one may be
    // elsewhere already, and any node may claim it.
    const here = this.#find(sessionId);
    if (here?.isHeld === false && here.session.retentionMs === 0) return false;
    const known = this.#options.directory.find(principal, { principal, id: agentId });
    const isUnknown = known === undefined && incarnationOf(sessionId) !== this.#options.incarnation;
    return isUnknown ? undefined : known?.session.id === sessionId;
  }

  #handleForged(node: string, { sessionId }: RemoteAgent): void {
    const fields = { event: 'peer.forged', node, session: sessionId };
    const why = 'another node speaks for a session that is not its own; what it sends for it is refused';
    this.#logger.warn(fields, why);
  }

  /** Another node begins to pass on what its agents send. */
  #accept(link: Link): IncomingRelay {
    const { relay, incarnation } = this.#options;
    const { node } = link;
    const isOwn = node === incarnation;
    const incoming: IncomingRelay = new IncomingRelay(link, {
      ...this.#host(node),
      relay,
      find: (sessionId) => this.#find(sessionId)?.session,
      accessTo: (sessionId) => this.#accessTo(sessionId, isOwn),
      maySpeakFor: (agent) => this.#maySpeakFor(node, agent),
      onForged: (agent) => this.#handleForged(node, agent),
      onAccount: (sessionId) => {
        const account = this.#accounts.get(sessionId);
        if (account === undefined || account.from !== node || account.isBound) return undefined;
        account.isBound = true;
        return account.inflow;
      },
      onReport: (sessionId, report) => this.#accounts.get(sessionId)?.onReport(report),
      onSettled: (sessionId, isComplete) => this.#closeAccount(sessionId, isComplete),
      onOver: () => this.#incoming.delete(incoming),
    });
    this.#incoming.set(incoming, node);
    return incoming;
  }

  /** Requests between this node and others that are not over. */
  get openRequests(): number {
    let open = 0;
    for (const { size } of [...this.#outgoing.values(), ...this.#incoming.keys()]) open += size;
    return open;
  }

  /**
   * Tells others what is known of messages of and to agents that have moved away, without waiting for the next tick.
   *
   * @returns whether the fate of all of them is known, here and at the nodes of others.
   */
  trySettle(): boolean {
    this.#options.relay.messages.handleTick();
    for (const { inflows } of this.#incoming.keys()) inflows.tellConfirmed();
    for (const stub of this.#movedSources) this.#settle(stub);
    if (this.#movedSources.size > 0) return false;
    for (const [{ inflows }, node] of this.#incoming)
      if (node !== this.#options.incarnation && !inflows.isSettled) return false;
    return true;
  }

  handleTick(): void {
    const { isNodeAlive, relay } = this.#options;
    relay.messages.handleTick();
    for (const incoming of this.#incoming.keys()) incoming.handleTick();
    for (const target of this.#targets) target.handleTick();
    for (const stub of this.#movedSources) this.#settle(stub);
    for (const [id, account] of this.#accounts)
      if (!account.isBound && (++account.age > MAX_ACCOUNT_TICKS || !isNodeAlive(account.from)))
        this.#closeAccount(id, false);
  }

  #closeAccount(sessionId: string, isComplete: boolean): void {
    const account = this.#accounts.get(sessionId);
    this.#accounts.delete(sessionId);
    account?.onSettled(isComplete);
  }

  #settle(stub: MovedSource): void {
    if (stub.state !== 'closed' && this.#options.relay.messages.hasPending(stub)) return;
    this.#movedSources.delete(stub);
    stub.settle();
  }

  #outgoingTo(node: string): OutgoingRelay {
    const known = this.#outgoing.get(node);
    if (known !== undefined) return known;
    const { relay, options, links } = this.#options;
    const link = links.to(node);
    const outgoing: OutgoingRelay = new OutgoingRelay(link, {
      relay,
      maxDepth: options.limits.maxJsonDepth,
      onTargetEnded: (target) => {
        if (this.#forwarded.get(target.id) === target) this.#tellGone(target);
      },
      onOver: () => this.#outgoing.delete(node),
    });
    this.#outgoing.set(node, outgoing);
    return link.attach(AGENTS, outgoing);
  }

  #host(node: string): RemoteHost {
    const { limits, security } = this.#options.options;
    const host: RemoteHost = {
      // The memory is the principal's, whose body it is.
      openMemory: (principal) => {
        const memory = this.#options.memory.open(limits.sessionMemory);
        memory.assign([`principal ${principal}`]);
        memory.onFault = (error) => host.crash(error);
        return memory;
      },
      now: () => systemClock.now(),
      createCoder: ({ algorithms, encoding }) =>
        createBodyCoder({
          algorithms,
          encoding: encoding === null ? undefined : loadedEncodings.get(encoding),
          limits,
          security,
          yield: systemClock.yield,
        }),
      crash: (error) => {
        const fields = { event: 'peer.failed', node, err: loggable(error) };
        this.#logger.error(fields, 'relaying with another node has failed, the connection to it is closed');
        this.#options.links.drop(node);
      },
    };
    return host;
  }
}

function agentOf({ id: sessionId, principal, agentId, negotiated }: RemoteTarget): RemoteAgent {
  return { sessionId, principal, agentId, negotiated };
}
