import { isProtocolError, type Limits, type Logger, ProtocolError, type StringMap } from '@parlance/protocol';
import { get, incarnationOf, isFields, loggable, readAgent } from '@parlance/protocol/internal';
import type { Agent } from '../agents/agent.js';
import type { Cohort, Directory } from '../agents/directory.js';
import type { RelayTarget } from '../agents/target.js';
import type { AgentChange, AgentEntry, BackplaneLink } from '../backplane/backplane.js';
import type { ServerEndpoint } from '../endpoint.js';
import { keyOf } from '../keys.js';
import { readAgreement } from './relay-inlet.js';
import type { RemoteAgent } from './remote-session.js';

/** A node that is not known yet counts as alive for this long, in milliseconds: it may have joined just now. */
const GRACE_MS = 6_000;
/** Until the engine is asked again after a failure, in milliseconds. */
const RETRY_MS = 500;
/** Characters of a record, and agents of other nodes. */
const MAX_RECORD = 32 * 1024;
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
}

interface Own {
  readonly agent: Agent;
  /** The number of the change that has announced it first; `undefined` until then. */
  since: number | undefined;
}

interface Other extends AgentEntry {
  readonly node: string;
  readonly target: RelayTarget;
  readonly seenAt: number;
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
  #isStopped = false;
  #isStalled = false;

  constructor(options: RosterOptions) {
    this.#options = options;
    options.directory.cohort = this;
  }

  /** Reads the agents of other nodes, if the backplane answers, and follows their changes from now on. */
  async start(): Promise<void> {
    await this.#next();
    void this.#follow();
  }

  /** Removes the agents of this node. Never rejects. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const [key, { agent }] of this.#own) this.#write(key, () => this.#remove(key, agent.session.id));
    this.#own.clear();
    await Promise.all(this.#writes.values());
    await this.#options.link.close();
  }

  /** Removes the agents of nodes that are gone. */
  handleTick(): void {
    for (const [key, { holder, node, seenAt }] of this.#others) {
      if (this.#isNodeAlive(node, seenAt)) continue;
      this.#drop(key);
      this.#table.delete(key);
      this.#write(key, () => this.#remove(key, holder));
    }
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
    this.#write(key, () => this.#remove(key, agent.session.id));
    this.#reconcile(key);
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
    const entry = { holder: agent.session.id, record: recordOf(agent) };
    if (own.since !== undefined) {
      await link.putAgent(key, entry, entry.holder);
      return;
    }
    if (onConflict === 'takeOver') {
      own.since = (await link.putAgent(key, entry, undefined)).position;
    } else {
      const dead = this.#table.get(key)?.entry.holder;
      const node = dead === undefined ? undefined : incarnationOf(dead);
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
    const { agents, position } = await this.#options.link.agents();
    if (this.#isStopped) return;
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
    for (const key of keys) this.#reconcile(key);
  }

  #apply({ position, key, entry }: AgentChange): void {
    this.#position = position;
    if (entry === undefined) this.#table.delete(key);
    else this.#table.set(key, { entry, position });
    const own = this.#own.get(key);
    if (entry === undefined && own?.since !== undefined && position > own.since) this.#restore(key, own);
    this.#reconcile(key);
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
    if (own !== undefined) {
      const { since, agent } = own;
      const isOwn = stated === undefined || stated.entry.holder === agent.session.id;
      if (isOwn || since === undefined || stated.position <= since) return this.#drop(key);
      this.#own.delete(key);
      directory.endReplaced(agent.session as ServerEndpoint);
    }
    const node = stated && incarnationOf(stated.entry.holder);
    if (stated === undefined || node === undefined || node === incarnation) return this.#drop(key);
    this.#put(key, node, stated.entry);
  }

  #put(key: string, node: string, entry: AgentEntry): void {
    const { directory, limits, targetOf, now } = this.#options;
    const { holder, record } = entry;
    const known = this.#others.get(key);
    if (known?.holder === holder && known.record === record) return;
    if (known?.holder !== holder) this.#drop(key);
    if (this.#others.size >= MAX_AGENTS) return;
    const read = readRecord(key, entry, limits);
    if (read === undefined) return this.#drop(key);
    const target = known?.holder === holder ? known.target : targetOf(node, read.agent);
    this.#others.set(key, { holder, record, node, target, seenAt: known?.seenAt ?? now() });
    target.state = read.isSuspended ? 'suspended' : 'established';
    directory.addRemote(target, read.description, read.isSuspended);
  }

  #drop(key: string): void {
    const known = this.#others.get(key);
    if (known === undefined) return;
    this.#others.delete(key);
    this.#options.directory.removeRemote(known.target);
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

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms).unref());
}

function recordOf({ party, session, stated, isSuspended }: Agent): string {
  const { algorithms, encoding } = session.negotiated;
  const { agents, avp } = stated ?? {};
  const { principal, id } = party;
  return JSON.stringify({ principal, id, suspended: isSuspended, algorithms, encoding, agents, avp });
}

function readRecord(key: string, { holder, record }: AgentEntry, limits: Limits) {
  if (record.length > MAX_RECORD) return undefined;
  try {
    const fields: unknown = JSON.parse(record);
    if (!isFields(fields)) return undefined;
    const [principal, id] = [get(fields, 'principal'), get(fields, 'id')];
    const [agents, avp] = [get(fields, 'agents'), get(fields, 'avp')];
    if (typeof principal !== 'string' || typeof id !== 'string' || keyOf(principal, id) !== key)
      return undefined;
    const stated: StringMap = {
      ...(typeof agents === 'string' ? { agents } : {}),
      ...(typeof avp === 'string' ? { avp } : {}),
    };
    const negotiated = readAgreement(get(fields, 'algorithms'), get(fields, 'encoding'));
    return {
      agent: { sessionId: holder, principal, agentId: id, negotiated },
      description: readAgent(stated, limits),
      isSuspended: get(fields, 'suspended') === true,
    };
  } catch {
    // Another node wrote something that this one does not understand; it has no such agent.
    return undefined;
  }
}
