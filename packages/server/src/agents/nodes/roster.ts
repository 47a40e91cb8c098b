import { type Limits, type Logger, ProtocolError } from '@parlance/protocol';
import { keyOf } from '../../base/keys.js';
import { Orphans, type OrphansOptions } from '../../cluster/orphans.js';
import { TableEntries } from '../../cluster/table-entries.js';
import type { EngineConnection, TableChange, TableEntry } from '../../engine/engine.js';
import type { ServerEndpoint } from '../../session/endpoint.js';
import type { Agent } from '../agent.js';
import type { Cohort, Directory } from '../directory.js';
import type { RelayTarget } from '../target.js';
import type { RemoteAgent } from './remote-session.js';
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
/** Agents of other nodes. */
const MAX_AGENTS = 100_000;

/** The stand-ins for agents of other nodes. */
export interface RosterPeers {
  targetOf(node: string, agent: RemoteAgent): RelayTarget;
  /** For an agent of this node whose session another node has from its record, or will have. */
  handleAway(agent: Agent): RelayTarget;
  /** Messages for the agent go to another node from now on. */
  reroute(target: RelayTarget, node: string): void;
  /** It is not needed any more. */
  forget(target: RelayTarget): void;
}

export interface RosterOptions extends OrphansOptions {
  readonly link: Pick<EngineConnection, 'table' | 'close'>;
  readonly directory: Directory;
  readonly onConflict: 'takeOver' | 'refuse';
  readonly limits: Limits;
  readonly logger: Logger;
  /** As {@link TableEntriesOptions.pause}. */
  readonly pause?: ((ms: number) => Promise<void>) | undefined;
  readonly peers: RosterPeers;
}

interface Own {
  readonly agent: Agent;
  /** The number of the change that has announced it first; `undefined` until then. */
  since: number | undefined;
}

interface Other extends TableEntry, Holder {
  readonly target: RelayTarget;
  readonly seenAt: number;
  /** It has moved from here, which the engine may not know yet. */
  readonly isMoved?: boolean | undefined;
  /** The clock reading at which its node was found gone, if its session is recorded. */
  awaitedSince?: number | undefined;
}

/** Keeps the directories of all nodes the same, by what the engine knows of agents. */
export class Roster implements Cohort {
  readonly #options: RosterOptions;
  readonly #own = new Map<string, Own>();
  readonly #others = new Map<string, Other>();
  /** The engine's entries, each with the number of the change that has made it. */
  readonly #table = new Map<string, { readonly entry: TableEntry; readonly position: number }>();
  readonly #entries: TableEntries;
  readonly #orphans: Orphans;
  #position: number | undefined;
  /** The engine has forgotten the agents, as far as is known. A clock reading. */
  #forgottenUntil: number | undefined;

  constructor(options: RosterOptions) {
    this.#options = options;
    this.#entries = new TableEntries({ ...options, name: 'agents' });
    this.#orphans = new Orphans(options);
    options.directory.cohort = this;
  }

  /** The agents of other nodes were read once. */
  get isReady(): boolean {
    return this.#position !== undefined;
  }

  /** Reads the agents of other nodes, if the engine answers, and follows their changes from now on. */
  async start(): Promise<void> {
    await this.#entries.follow(() => this.#next());
  }

  /** Removes the agents of this node. Never rejects. */
  async stop(): Promise<void> {
    for (const [key, { agent }] of this.#own)
      this.#entries.write(key, () => this.#entries.put(key, undefined, this.#holderOf(agent)));
    this.#own.clear();
    await this.#entries.stop();
  }

  /** Removes the agents of nodes that are gone. */
  handleTick(): void {
    this.#endGrace();
    for (const [key, other] of this.#others) {
      const { holder, node, sessionId, seenAt, isMoved } = other;
      if (this.#isNodeAlive(node, seenAt) || this.#isAwaited(other)) continue;
      this.#drop(key);
      this.#table.delete(key);
      this.#orphans.add(key, holder, node);
      // The node has died before it wrote the entry.
      const own = holderName(this.#options.incarnation, sessionId);
      if (isMoved === true) this.#entries.write(key, () => this.#entries.put(key, undefined, own));
    }
    for (const { key, holder } of this.#orphans.take())
      this.#entries.write(key, () => this.#entries.put(key, undefined, holder));
  }

  /** Whether another node may still continue the session of an agent whose node is gone. */
  #isAwaited(other: Other): boolean {
    const { directory, now } = this.#options;
    const { target, record } = other;
    if (target.retentionMs === 0) return false;
    if (other.awaitedSince === undefined) {
      other.awaitedSince = now();
      const agent = directory.agentOf(target);
      target.state = 'suspended';
      if (agent?.isSuspended === false)
        directory.addRemote(target, agent.description, true, digestOf(suspended(record)));
    }
    return now() - other.awaitedSince < target.retentionMs;
  }

  #holderOf({ session }: Agent): string {
    return holderName(this.#options.incarnation, session.id);
  }

  // --- agents that move

  /** The session of an agent of this node is at another one now, which writes its entry. */
  handleMoved(agent: Agent, node: string, target: RelayTarget): void {
    const key = keyOf(agent.party.principal, agent.id);
    if (this.#own.get(key)?.agent !== agent) return;
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
    const { peers, incarnation, now } = this.#options;
    this.#own.delete(key);
    const { id: sessionId } = agent.session;
    const holder = this.#holderOf(agent);
    agent.isSuspended = true;
    const record = recordOf(agent);
    const target = peers.handleAway(agent);
    const place = { holder, record, node: incarnation, sessionId, target };
    this.#others.set(key, { ...place, seenAt: now(), isMoved: true });
    this.#entries.write(key, () => this.#entries.put(key, { holder, record }, holder));
    // Another node may have announced it already.
    queueMicrotask(() => this.#reconcile(key));
    return target;
  }

  /** The session of an agent is here, which no node has had any more. @returns as {@link adopt}. */
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
    this.#entries.write(key, () => this.#replace(key, own, from));
    return known?.sessionId === agent.session.id ? known.target : undefined;
  }

  async #replace(key: string, own: Own, from: string): Promise<void> {
    const { agent } = own;
    if (this.#own.get(key) !== own) return;
    const former = holderName(from, agent.session.id);
    own.since = await this.#entries.replace(key, this.#entryOf(agent), former);
    if (own.since === undefined) {
      const stated = readHolder((await this.#entries.table.read()).entries.get(key)?.holder ?? former);
      // A write of a node that had the session before was late.
      if (stated?.sessionId === agent.session.id) return await this.#replace(key, own, stated.node);
      this.#options.directory.endReplaced(agent.session as ServerEndpoint);
    }
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
    this.#entries.write(key, () => this.#announce(key, own));
  }

  handleLeft(agent: Agent): void {
    const key = keyOf(agent.party.principal, agent.id);
    if (this.#own.get(key)?.agent !== agent) return;
    this.#own.delete(key);
    this.#entries.write(key, () => this.#entries.put(key, undefined, this.#holderOf(agent)));
    this.#reconcile(key);
  }

  versionOf(agent: Agent): string {
    return digestOf(recordOf(agent));
  }

  isAlive(agent: Agent): boolean {
    const other = this.#others.get(keyOf(agent.party.principal, agent.id));
    return other !== undefined && this.#isNodeAlive(other.node, other.seenAt);
  }

  #entryOf(agent: Agent): TableEntry {
    return { holder: this.#holderOf(agent), record: recordOf(agent) };
  }

  /** @param isAgain its entry is gone. A session that has taken its place since is newer, and its client may be there. */
  async #announce(key: string, own: Own, isAgain = false): Promise<void> {
    const { isNodeAlive, onConflict, directory } = this.#options;
    if (this.#own.get(key) !== own) return;
    const entry = this.#entryOf(own.agent);
    if (own.since !== undefined) return await this.#entries.put(key, entry, entry.holder);
    const stated = this.#table.get(key)?.entry.holder;
    const node = stated === undefined ? undefined : readHolder(stated)?.node;
    const former = node !== undefined && !isNodeAlive(node) ? stated : undefined;
    if (isAgain) own.since = await this.#entries.replace(key, entry, entry.holder);
    else if (onConflict === 'takeOver') own.since = await this.#entries.takeOver(key, entry);
    else own.since = await this.#entries.add(key, entry, former);
    if (own.since !== undefined) return this.#reconcile(key);
    this.#own.delete(key);
    if (onConflict === 'takeOver') directory.endReplaced(own.agent.session as ServerEndpoint);
    else own.agent.session.abort(new ProtocolError('forbidden', 'another session has this agent ID'));
    this.#reconcile(key);
  }

  // --- agents of other nodes

  /** Reads the table or the next changes. */
  async #next(): Promise<void> {
    const changes =
      this.#position === undefined ? undefined : await this.#entries.table.changes(this.#position);
    if (this.#entries.isStopped) return;
    if (changes === undefined) await this.#reload();
    else for (const change of changes) this.#apply(change);
  }

  async #reload(): Promise<void> {
    const { directory } = this.#options;
    const key = await this.#entries.table.shareKey(Buffer.from(directory.key).toString('base64'));
    const { entries, position } = await this.#entries.table.read();
    if (this.#entries.isStopped) return;
    directory.key = Buffer.from(key, 'base64');
    const keys = new Set([...this.#table.keys(), ...entries.keys(), ...this.#own.keys()]);
    this.#table.clear();
    this.#orphans.clear();
    for (const [key, entry] of entries) this.#table.set(key, { entry, position });
    const isReset = this.#position !== undefined && position < this.#position;
    this.#position = position;
    for (const [key, own] of this.#own) {
      // The engine has forgotten everything, or changes that this node does not know were made.
      if (isReset) own.since = Math.min(own.since ?? position, position);
      if (own.since !== undefined && own.since <= position && !entries.has(key)) this.#restore(key, own);
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

  #apply({ position, key, entry }: TableChange): void {
    this.#position = position;
    this.#orphans.delete(key);
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
  #correct(key: string, { holder, record }: TableEntry): boolean {
    const { incarnation } = this.#options;
    if (readHolder(holder)?.node !== incarnation || this.#entries.isWriting(key)) return false;
    // Its next node writes it.
    if (this.#others.get(key)?.isMoved === true) return false;
    const current = (): TableEntry | undefined => {
      const agent = this.#own.get(key)?.agent;
      return agent && this.#entryOf(agent);
    };
    const entry = current();
    if (entry?.holder === holder && entry.record === record) return false;
    this.#entries.write(key, () => this.#entries.put(key, current(), holder));
    return true;
  }

  /** Another node took this one for dead, or the engine has forgotten the agent. */
  #restore(key: string, own: Own): void {
    own.since = undefined;
    this.#entries.write(key, () => this.#announce(key, own, true));
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

  #put(key: string, { node, sessionId }: Holder, entry: TableEntry): void {
    const { directory, limits, peers, now } = this.#options;
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
    const target = isSame ? known.target : peers.targetOf(node, read.agent);
    const seenAt = isSame && known.node === node ? known.seenAt : now();
    this.#others.set(key, { holder, record, node, sessionId, target, seenAt });
    if (isSame && known.node !== node) peers.reroute(target, node);
    target.state = read.isSuspended ? 'suspended' : 'established';
    directory.addRemote(target, read.description, read.isSuspended, digestOf(record));
  }

  #drop(key: string): void {
    const known = this.#others.get(key);
    if (known === undefined) return;
    this.#others.delete(key);
    this.#options.directory.removeRemote(known.target);
    this.#options.peers.forget(known.target);
  }
}
