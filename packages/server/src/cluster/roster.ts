import { isProtocolError, type Limits, type Logger, ProtocolError } from '@parlance/protocol';
import { loggable } from '@parlance/protocol/internal';
import type { Agent } from '../agents/agent.js';
import type { Cohort, Directory } from '../agents/directory.js';
import type { RelayTarget } from '../agents/target.js';
import type { AgentEntry, AgentEntryChange, BackplaneLink } from '../backplane/backplane.js';
import type { ServerEndpoint } from '../endpoint.js';
import { keyOf } from '../keys.js';
import { pause } from '../repeat.js';
import type { RemoteAgent } from './relay/remote-session.js';
import {
  digestOf,
  type Holder,
  holderName,
  readHolder,
  readRecord,
  recordOf,
  suspended,
} from './roster-record.js';

/**
 * A node that is not known yet counts as alive for this long, in milliseconds: it may have joined just now. An agent that the
 * engine has forgotten counts as present for as long.
 */
const GRACE_MS = 6_000;
/** Until the engine is asked again after a failure, in milliseconds. */
const RETRY_MS = 500;
/** Agents of other nodes. */
const MAX_AGENTS = 100_000;

export interface RosterOptions {
  readonly link: BackplaneLink;
  readonly incarnation: string;
  readonly directory: Directory;
  readonly onConflict: 'takeOver' | 'refuse';
  readonly limits: Limits;
  readonly logger: Logger;
  /** Clock reading in milliseconds. */
  readonly now: () => number;
  readonly isNodeAlive: (incarnation: string) => boolean;
  readonly targetOf: (node: string, agent: RemoteAgent) => RelayTarget;
  /** How long an agent whose session is durable stays after its node is gone, in milliseconds. */
  readonly durableMs: number;
  /** The stand-in for an agent of this node whose durable session another node has, or will have. */
  readonly targetAway: (agent: Agent) => RelayTarget;
  /** What is for the agent goes to another node from now on. */
  readonly reroute: (target: RelayTarget, node: string) => void;
  /** The stand-in is not needed any more. */
  readonly forget: (target: RelayTarget) => void;
}

interface Own {
  readonly agent: Agent;
  /** The number of the change that has announced it first; `undefined` until then. */
  since: number | undefined;
}

interface Other extends AgentEntry {
  readonly node: string;
  readonly sessionId: string;
  readonly target: RelayTarget;
  readonly seenAt: number;
  /** It has moved from here, which the backplane may not know yet. */
  readonly isMoved?: boolean | undefined;
  /** Its node is gone since then, and its session is durable. A clock reading. */
  awaitedSince?: number | undefined;
}

/** Keeps the directories of all nodes the same, by what the backplane knows of agents. */
export class Roster implements Cohort {
  readonly #options: RosterOptions;
  readonly #own = new Map<string, Own>();
  readonly #others = new Map<string, Other>();
  /** What the backplane says, and the number of the change that has said it. */
  readonly #table = new Map<string, { readonly entry: AgentEntry; readonly position: number }>();
  /** The last write of each agent, after which the next one begins. */
  readonly #writes = new Map<string, Promise<void>>();
  #position: number | undefined;
  /** The engine has forgotten the agents, as far as is known. A clock reading. */
  #forgottenUntil: number | undefined;
  #isStopped = false;
  #isStalled = false;

  constructor(options: RosterOptions) {
    this.#options = options;
    options.directory.cohort = this;
  }

  /** The agents of other nodes were read once. */
  get isReady(): boolean {
    return this.#position !== undefined;
  }

  /** Reads the agents of other nodes, if the backplane answers, and follows their changes from now on. */
  async start(): Promise<void> {
    await this.#next();
    void this.#follow();
  }

  /** Removes the agents of this node. Never rejects. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const [key, { agent }] of this.#own)
      this.#write(key, () => this.#remove(key, this.#holderOf(agent)));
    this.#own.clear();
    await Promise.all(this.#writes.values());
    await this.#options.link.close();
  }

  /** Removes the agents of nodes that are gone. */
  handleTick(): void {
    this.#endGrace();
    for (const [key, other] of this.#others) {
      const { holder, node, sessionId, seenAt, isMoved } = other;
      if (this.#isNodeAlive(node, seenAt) || this.#isAwaited(other)) continue;
      this.#drop(key);
      this.#table.delete(key);
      this.#write(key, () => this.#remove(key, holder));
      // The node has died before it wrote the entry.
      const own = holderName(this.#options.incarnation, sessionId);
      if (isMoved === true) this.#write(key, () => this.#remove(key, own));
    }
  }

  /** Any node may go on with the session of an agent whose node is gone. */
  #isAwaited(other: Other): boolean {
    const { directory, durableMs, now } = this.#options;
    const { target, record } = other;
    if (!target.isDurable) return false;
    if (other.awaitedSince === undefined) {
      other.awaitedSince = now();
      const agent = directory.agentOf(target);
      target.state = 'suspended';
      if (agent?.isSuspended === false)
        directory.addRemote(target, agent.description, true, digestOf(suspended(record)));
    }
    return now() - other.awaitedSince < durableMs;
  }

  #holderOf({ session }: Agent): string {
    return holderName(this.#options.incarnation, session.id);
  }

  // --- agents that move

  /** The session of an agent of this node is at another one now, which writes its entry. */
  handleMoved(agent: Agent, node: string, target: RelayTarget): void {
    const key = keyOf(agent.party.principal, agent.id);
    const own = this.#own.get(key);
    if (own?.agent !== agent) return;
    this.#own.delete(key);
    const sessionId = agent.session.id;
    const holder = holderName(node, sessionId);
    const seenAt = this.#options.now();
    const record = recordOf(agent);
    this.#others.set(key, { holder, record, node, sessionId, target, seenAt, isMoved: true });
  }

  handleAway(agent: Agent): RelayTarget | undefined {
    const key = keyOf(agent.party.principal, agent.id);
    if (this.#own.get(key)?.agent !== agent) return undefined;
    const { targetAway, incarnation, now } = this.#options;
    this.#own.delete(key);
    const { id: sessionId } = agent.session;
    const holder = this.#holderOf(agent);
    agent.isSuspended = true;
    const record = recordOf(agent);
    const target = targetAway(agent);
    const place = { holder, record, node: incarnation, sessionId, target };
    this.#others.set(key, { ...place, seenAt: now(), isMoved: true });
    this.#write(key, async () => void (await this.#options.link.putAgent(key, { holder, record }, holder)));
    // Another node may have announced it already.
    queueMicrotask(() => this.#reconcile(key));
    return target;
  }

  /**
   * The session of an agent is here, which no node has had any more.
   *
   * @returns as {@link adopt}.
   */
  takeOver(agent: Agent): RelayTarget | undefined {
    const key = keyOf(agent.party.principal, agent.id);
    const known = this.#others.get(key);
    const isSame = known?.sessionId === agent.session.id;
    if (isSame) this.#others.delete(key);
    this.handlePresent(agent);
    return isSame ? known.target : undefined;
  }

  /**
   * The session of an agent has come here.
   *
   * @returns what has stood for it here.
   */
  adopt(agent: Agent, from: string): RelayTarget | undefined {
    const key = keyOf(agent.party.principal, agent.id);
    const known = this.#others.get(key);
    this.#others.delete(key);
    const own: Own = { agent, since: undefined };
    this.#own.set(key, own);
    this.#write(key, () => this.#replace(key, own, from));
    return known?.sessionId === agent.session.id ? known.target : undefined;
  }

  async #replace(key: string, own: Own, from: string): Promise<void> {
    const { agent } = own;
    if (this.#own.get(key) !== own) return;
    const { link } = this.#options;
    const entry = { holder: this.#holderOf(agent), record: recordOf(agent) };
    let put = await link.putAgent(key, entry, holderName(from, agent.session.id));
    // Its former node was taken for dead, so the entry is gone. Or its write was made, and not answered.
    if (!put.isDone) put = await link.putAgent(key, entry, null);
    if (!put.isDone) put = await link.putAgent(key, entry, entry.holder);
    if (put.isDone) own.since = put.position;
    else this.#options.directory.endReplaced(agent.session as ServerEndpoint);
    this.#reconcile(key);
  }

  #isNodeAlive(node: string, seenAt: number): boolean {
    const { isNodeAlive, now } = this.#options;
    return isNodeAlive(node) || now() - seenAt < GRACE_MS;
  }

  // --- agents of this node

  handlePresent(agent: Agent): void {
    const key = keyOf(agent.party.principal, agent.id);
    const known = this.#own.get(key);
    const own = known?.agent === agent ? known : { agent, since: undefined };
    this.#own.set(key, own);
    this.#write(key, () => this.#announce(key, own));
  }

  handleLeft(agent: Agent): void {
    const key = keyOf(agent.party.principal, agent.id);
    if (this.#own.get(key)?.agent !== agent) return;
    this.#own.delete(key);
    this.#write(key, () => this.#remove(key, this.#holderOf(agent)));
    this.#reconcile(key);
  }

  versionOf(agent: Agent): string {
    return digestOf(recordOf(agent));
  }

  isAlive(agent: Agent): boolean {
    const other = this.#others.get(keyOf(agent.party.principal, agent.id));
    return other !== undefined && this.#isNodeAlive(other.node, other.seenAt);
  }

  /** Runs after earlier writes of the same agent, and again while the backplane does not answer. */
  #write(key: string, write: () => Promise<void>): void {
    const before = this.#writes.get(key) ?? Promise.resolve();
    const after = before.then(() => this.#persist(write));
    this.#writes.set(key, after);
    void after.then(() => {
      if (this.#writes.get(key) === after) this.#writes.delete(key);
    });
  }

  async #persist(write: () => Promise<void>): Promise<void> {
    for (;;) {
      try {
        return await write();
      } catch (error) {
        this.#handleFailed(error);
        if (this.#isStopped) return;
        await pause(RETRY_MS);
      }
    }
  }

  async #announce(key: string, own: Own): Promise<void> {
    const { link, onConflict } = this.#options;
    const { agent } = own;
    if (this.#own.get(key) !== own) return;
    const entry = { holder: this.#holderOf(agent), record: recordOf(agent) };
    if (own.since !== undefined) {
      await link.putAgent(key, entry, entry.holder);
      return;
    }
    if (onConflict === 'takeOver') {
      own.since = (await link.putAgent(key, entry, undefined)).position;
    } else {
      const dead = this.#table.get(key)?.entry.holder;
      const node = dead === undefined ? undefined : readHolder(dead)?.node;
      const mayReplace = node !== undefined && !this.#options.isNodeAlive(node);
      let put = await link.putAgent(key, entry, null);
      if (!put.isDone && mayReplace) put = await link.putAgent(key, entry, dead);
      if (!put.isDone) {
        agent.session.abort(
          new ProtocolError('forbidden', 'another session of this principal has this agent ID'),
        );
        return;
      }
      own.since = put.position;
    }
    this.#reconcile(key);
  }

  async #remove(key: string, holder: string): Promise<void> {
    await this.#options.link.putAgent(key, undefined, holder);
  }

  // --- agents of other nodes

  async #follow(): Promise<void> {
    while (!this.#isStopped) if (!(await this.#next())) await pause(RETRY_MS);
  }

  /** Reads the table or the next changes. Returns whether the backplane has answered. Never rejects. */
  async #next(): Promise<boolean> {
    const { link, logger } = this.#options;
    try {
      const changes = this.#position === undefined ? undefined : await link.changes(this.#position);
      if (this.#isStopped) return true;
      if (changes === undefined) await this.#reload();
      else for (const change of changes) this.#apply(change);
      if (this.#isStalled) logger.info({ event: 'agents.back' }, 'agents of other nodes are known again');
      this.#isStalled = false;
      return true;
    } catch (error) {
      this.#handleFailed(error);
      return false;
    }
  }

  async #reload(): Promise<void> {
    const { link, directory } = this.#options;
    const key = await link.shareKey(Buffer.from(directory.key).toString('base64'));
    const { agents, position } = await link.agents();
    if (this.#isStopped) return;
    directory.key = Buffer.from(key, 'base64');
    const keys = new Set([...this.#table.keys(), ...agents.keys(), ...this.#own.keys()]);
    this.#table.clear();
    for (const [key, entry] of agents) this.#table.set(key, { entry, position });
    const isReset = this.#position !== undefined && position < this.#position;
    this.#position = position;
    for (const [key, own] of this.#own) {
      // The engine has forgotten everything, or changes that this node does not know were made.
      if (isReset) own.since = Math.min(own.since ?? position, position);
      if (own.since !== undefined && own.since <= position && !agents.has(key)) this.#restore(key, own);
    }
    if (isReset) this.#forgottenUntil = this.#options.now() + GRACE_MS;
    for (const key of keys) if (!this.#isForgotten(key)) this.#settle(key);
  }

  /** The engine is empty for a moment, until the node of the agent announces it again. */
  #isForgotten(key: string): boolean {
    if (this.#forgottenUntil === undefined || this.#table.has(key)) return false;
    return this.#others.has(key);
  }

  /** Nodes have had the time to announce their agents again. */
  #endGrace(): void {
    if (this.#forgottenUntil === undefined || this.#options.now() < this.#forgottenUntil) return;
    this.#forgottenUntil = undefined;
    for (const key of [...this.#others.keys()]) if (!this.#table.has(key)) this.#reconcile(key);
  }

  #apply({ position, key, entry }: AgentEntryChange): void {
    this.#position = position;
    if (entry === undefined) this.#table.delete(key);
    else this.#table.set(key, { entry, position });
    const own = this.#own.get(key);
    if (entry === undefined && own?.since !== undefined && position > own.since) this.#restore(key, own);
    this.#settle(key);
  }

  #settle(key: string): void {
    const stated = this.#table.get(key);
    if (stated === undefined || !this.#correct(key, stated.entry)) this.#reconcile(key);
  }

  /**
   * Writes again what an entry of this node says wrongly: a write that was not answered in time may be executed after later
   * ones. Returns whether it does.
   */
  #correct(key: string, { holder, record }: AgentEntry): boolean {
    const { incarnation, link } = this.#options;
    if (readHolder(holder)?.node !== incarnation || this.#writes.has(key)) return false;
    // Its next node writes it.
    if (this.#others.get(key)?.isMoved === true) return false;
    const current = (): AgentEntry | undefined => {
      const agent = this.#own.get(key)?.agent;
      return agent && { holder: this.#holderOf(agent), record: recordOf(agent) };
    };
    const entry = current();
    if (entry?.holder === holder && entry.record === record) return false;
    this.#write(key, async () => void (await link.putAgent(key, current(), holder)));
    return true;
  }

  /** Another node took this one for dead, or the engine has forgotten the agent. */
  #restore(key: string, own: Own): void {
    own.since = undefined;
    this.#write(key, () => this.#announce(key, own));
  }

  #reconcile(key: string): void {
    const { directory, incarnation } = this.#options;
    const stated = this.#table.get(key);
    const own = this.#own.get(key);
    const holder = stated && readHolder(stated.entry.holder);
    if (own !== undefined) {
      const { since, agent } = own;
      const isOwn = holder === undefined || holder.sessionId === agent.session.id;
      if (isOwn || since === undefined || (stated?.position ?? 0) <= since) return this.#drop(key);
      this.#own.delete(key);
      directory.endReplaced(agent.session as ServerEndpoint);
    }
    const known = this.#others.get(key);
    // The other node has not written the entry yet.
    const isMoving = known?.isMoved === true && holder?.sessionId === known.sessionId;
    if (isMoving && holder?.node === incarnation) return;
    if (stated === undefined || holder === undefined || holder.node === incarnation) return this.#drop(key);
    this.#put(key, holder, stated.entry);
  }

  #put(key: string, { node, sessionId }: Holder, entry: AgentEntry): void {
    const { directory, limits, targetOf, reroute, now } = this.#options;
    const { holder, record } = entry;
    const known = this.#others.get(key);
    if (known?.holder === holder && known.record === record) {
      if (known.isMoved === true) this.#others.set(key, { ...known, isMoved: false });
      return;
    }
    const isSame = known?.sessionId === sessionId;
    if (!isSame) this.#drop(key);
    if (this.#others.size >= MAX_AGENTS) return;
    const read = readRecord(key, sessionId, entry, limits);
    if (read === undefined) return this.#drop(key);
    const target = isSame ? known.target : targetOf(node, read.agent);
    const seenAt = isSame && known.node === node ? known.seenAt : now();
    this.#others.set(key, { holder, record, node, sessionId, target, seenAt });
    if (isSame && known.node !== node) reroute(target, node);
    target.state = read.isSuspended ? 'suspended' : 'established';
    directory.addRemote(target, read.description, read.isSuspended, digestOf(record));
  }

  #drop(key: string): void {
    const known = this.#others.get(key);
    if (known === undefined) return;
    this.#others.delete(key);
    this.#options.directory.removeRemote(known.target);
    this.#options.forget(known.target);
  }

  #handleFailed(error: unknown): void {
    if (this.#isStalled || this.#isStopped) return;
    this.#isStalled = true;
    const { logger } = this.#options;
    const fields = { event: 'agents.stalled', err: loggable(error) };
    if (isProtocolError(error)) logger.warn(fields, 'agents of other nodes are as they were known last');
    else logger.error(fields, 'following the agents of other nodes has failed');
  }
}
