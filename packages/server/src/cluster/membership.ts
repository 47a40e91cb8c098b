import { isProtocolError, type Logger, ProtocolError } from '@parlance/protocol';
import { type Clock, get, isFields, loggable } from '@parlance/protocol/internal';
import type { Engine, EngineConnection, ListedNode, NodeList } from '../engine/engine.js';

/** How long a node counts as alive after its last renewal, and how often it renews, in milliseconds. */
export const LEASE_MS = 5_000;
export const RENEW_MS = 1_500;
/** How long a node that leaves waits for the engine, in milliseconds; its lease ends in any case. */
const LEAVE_MS = 2_000;
/** Clocks may differ by this much before it is logged, in milliseconds; tickets are valid for 30 s. */
const MAX_SKEW_MS = 10_000;
/** Nodes that are known, beside which no others are; a record has at most this many characters. */
const MAX_NODES = 1_000;
const MAX_RECORD = 4_096;

/** The record that a node announces. */
export interface NodeRecord {
  /** The address of its port for other nodes: `wss://10.0.0.7:7946`. */
  readonly address: string;
  /** Proves that the node has the secret of the cluster. */
  readonly proof: string;
  /** It takes no sessions any more. @default false */
  readonly draining?: boolean | undefined;
}

/** Another node. */
export interface KnownNode extends NodeRecord {
  readonly incarnation: string;
}

interface Member extends KnownNode {
  draining: boolean | undefined;
  /** The engine has named it in its last list. */
  isListed: boolean;
  /** Clock reading up to which the node counts as alive. */
  aliveUntil: number;
}

export interface MembershipOptions {
  readonly engine: Engine;
  /** Of this node. */
  readonly incarnation: string;
  readonly clock: Clock;
  /** Unix milliseconds. */
  readonly now: () => number;
  readonly logger: Logger;
  /** Why the record of another node is not believed: `is …`, `has …`. */
  readonly refusalOf: (node: KnownNode) => string | undefined;
  /** The engine has forgotten something, or may have, because it was away. @default nothing */
  readonly onForgotten?: () => void;
  /**
   * The engine was not reached for the length of a lease, so that other nodes may take this one for dead. Called again with
   * each renewal that fails. @default nothing
   */
  readonly onLeaseOver?: () => void;
}

/**
 * The nodes of the cluster, this one included, as the engine last said. While the engine does not answer, what it said
 * last holds; afterwards, every node gets the time of a lease to announce itself again.
 */
export class Membership {
  readonly #options: MembershipOptions;
  readonly #link: EngineConnection;
  readonly #others = new Map<string, Member>();
  readonly #searches = new Map<string, Promise<KnownNode | undefined>>();
  /** Incarnations whose records were refused, so that each is logged once. */
  readonly #refused = new Set<string>();
  #announced: NodeRecord | undefined;
  /** Of the list that the engine has sent last. */
  #version: string | undefined;
  /** The latest renewal. */
  #renewing: Promise<void> | undefined;
  #isMember = false;
  #isStalled = false;
  #isSkewed = false;
  /** Clock reading before which a node that the engine does not know may live all the same. */
  #completeFrom = 0;
  #leaseUntil = Number.NEGATIVE_INFINITY;
  #isStopped = false;
  #cancel: () => void = () => {};
  #cancelLease: () => void = () => {};

  constructor(options: MembershipOptions) {
    this.#options = options;
    this.#link = options.engine.connect();
  }

  /** The node was announced at least once. */
  get isMember(): boolean {
    return this.#isMember;
  }
  /** The engine does not answer. */
  get isStalled(): boolean {
    return this.#isStalled;
  }
  /** Clock reading up to which no other node takes this one for dead: a lease after the start of the last renewal. */
  get leaseUntil(): number {
    return this.#leaseUntil;
  }
  get hasLease(): boolean {
    return this.#options.clock.now() < this.#leaseUntil;
  }
  /** Nodes that count as alive, this one included. */
  get size(): number {
    return this.#others.size + (this.#isMember ? 1 : 0);
  }

  /**
   * Announces the node, and keeps on renewing its lease. An engine that cannot be reached is tried again.
   *
   * @throws {ProtocolError} `unsupported` if the engine is unsuitable.
   */
  async start(record: NodeRecord): Promise<void> {
    if (this.#isStopped) return;
    this.#announced = record;
    await this.#renew(true);
    this.#schedule();
  }

  /** Other nodes that count as alive. */
  get others(): Iterable<KnownNode> {
    return this.#others.values();
  }

  /**
   * Tells other nodes that this one drains, and asks for those that its sessions may go to. Asks once more if the engine does
   * not answer, as after a silence over a connection that is then replaced, or if there are none, as they may just join.
   * Never rejects.
   */
  async announceDraining(): Promise<void> {
    if (this.#announced === undefined || this.#isStopped) return;
    this.#announced = { ...this.#announced, draining: true };
    await this.#renew(false);
    const hasTargets = this.living.some(({ draining }) => draining !== true);
    if (this.#isStalled || !hasTargets) await this.#renew(false);
  }

  /** Leaves the cluster, also if the node is just being announced. Never rejects. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancel();
    this.#cancelLease();
    await Promise.race([
      this.#leave(),
      new Promise<void>((resolve) => this.#options.clock.after(LEAVE_MS, resolve)),
    ]);
    await this.#link.close();
  }

  async #leave(): Promise<void> {
    // The engine might take up an announcement that is on its way after the withdrawal.
    await this.#renewing?.catch(() => {});
    if (this.#announced !== undefined) await this.#link.withdraw(this.#options.incarnation).catch(() => {});
  }

  /** A node that counts as alive. */
  get(incarnation: string): KnownNode | undefined {
    return this.#others.get(incarnation);
  }

  /** The other nodes that count as alive. */
  get living(): readonly KnownNode[] {
    return [...this.#others.values()].filter(({ incarnation }) => this.isAlive(incarnation));
  }

  /** Whether the lease of the node is not over, as far as is known. */
  isAlive(incarnation: string): boolean {
    const member = this.#others.get(incarnation);
    return member !== undefined && (this.#isStalled || member.aliveUntil > this.#options.clock.now());
  }

  /**
   * Whether the lease of a node is over. The engine is asked only if it is, as far as is known: all clients of a node that does not
   * answer come back at once, and again. Never rejects; `false` if the engine does not answer.
   */
  async isGone(incarnation: string): Promise<boolean> {
    if (this.isAlive(incarnation)) return false;
    return await this.find(incarnation).then(
      (found) => found === undefined,
      () => false,
    );
  }

  /**
   * Asks the engine for a node, which may have joined since the last renewal. Searches for one node are made together.
   *
   * @throws {ProtocolError} `connection_failed` or `timeout` if the engine does not answer, at once if this node has no lease;
   * `connection_failed` also if it has forgotten nodes that may not have announced themselves again yet.
   */
  async find(incarnation: string): Promise<KnownNode | undefined> {
    this.assertLease();
    let search = this.#searches.get(incarnation);
    if (search === undefined) {
      search = this.#search(incarnation).finally(() => this.#searches.delete(incarnation));
      this.#searches.set(incarnation, search);
    }
    return await search;
  }

  /**
   * Before a question to the engine for which a client would have to wait.
   *
   * @throws {ProtocolError} `connection_failed` if this node was a member, and its lease is over.
   */
  assertLease(): void {
    if (this.#isMember && !this.hasLease)
      throw new ProtocolError('connection_failed', 'the engine was not reached for the length of a lease');
  }

  async #search(incarnation: string): Promise<KnownNode | undefined> {
    const listed = await this.#link.find(incarnation);
    const found = listed && this.#read(listed);
    if (found !== undefined) this.#note(found, listed?.leaseMs ?? 0);
    else if (listed === undefined && this.#options.clock.now() < this.#completeFrom)
      throw new ProtocolError('connection_failed', 'the engine has forgotten the nodes of the cluster');
    return found;
  }

  // --- renewal

  #schedule(): void {
    if (this.#isStopped) return;
    this.#cancel = this.#options.clock.after(RENEW_MS, () => {
      this.#renew(false).then(
        () => this.#schedule(),
        (error: unknown) => {
          const { logger } = this.#options;
          logger.error({ event: 'server.failed', err: loggable(error) }, 'renewing the membership failed');
          this.#schedule();
        },
      );
    });
  }

  /** @param isFirst whether an engine that is unsuitable stops the server from starting. */
  #renew(isFirst: boolean): Promise<void> {
    const renewing = this.#tryToRenew(isFirst);
    this.#renewing = renewing;
    return renewing;
  }

  async #tryToRenew(isFirst: boolean): Promise<void> {
    const { incarnation } = this.#options;
    const { clock } = this.#options;
    const since = clock.now();
    let list: NodeList;
    try {
      list = await this.#link.renew(incarnation, JSON.stringify(this.#announced), LEASE_MS, this.#version);
    } catch (error) {
      if (isFirst && isProtocolError(error) && error.code === 'unsupported') throw error;
      if (this.#isStopped) return;
      this.#handleStalled(error);
      return this.#checkLease();
    }
    if (this.#isStopped) return;
    if (!this.#isMember) await this.#assertAlike(list);
    this.#leaseUntil = since + LEASE_MS;
    this.#cancelLease();
    this.#cancelLease = clock.after(this.#leaseUntil - clock.now(), () => this.#checkLease());
    const hasReturned = this.#isStalled;
    if (hasReturned) this.#handleBack();
    if (list.hasForgotten) this.#handleForgotten();
    this.#handleList(list, hasReturned || list.hasForgotten);
  }

  /** Nodes take a process without an address for dead, as they cannot ask it. @throws {ProtocolError} `invalid_option`. */
  async #assertAlike({ nodes = [] }: NodeList): Promise<void> {
    const isAlone = this.#announced?.address === '';
    const { incarnation: own } = this.#options;
    const isAlike = ({ incarnation, record }: ListedNode) => {
      const address = readRecord(record)?.address;
      return incarnation === own || address === undefined || (address === '') === isAlone;
    };
    if (nodes.every(isAlike)) return;
    await this.#link.withdraw(own).catch(() => {});
    const message = 'another process uses this engine, and one of the two lacks the feature nodes';
    throw new ProtocolError('invalid_option', message);
  }

  /** A process that stood still has no lease either, but its next renewal may succeed. */
  #checkLease(): void {
    if (this.#isStopped || !this.#isMember || !this.#isStalled || this.hasLease) return;
    this.#options.onLeaseOver?.();
  }

  #handleStalled(error: unknown): void {
    if (this.#isStalled) return;
    this.#isStalled = true;
    const fields = { event: 'engine.stalled', nodes: this.size, err: loggable(error) };
    this.#options.logger.warn(fields, 'the engine of the cluster does not answer; known nodes stay known');
  }

  #handleBack(): void {
    this.#isStalled = false;
    this.#options.logger.info({ event: 'engine.back' }, 'the engine of the cluster answers again');
  }

  #handleForgotten(): void {
    const { logger } = this.#options;
    const message = 'the engine has forgotten this node, and maybe others; each announces itself again';
    logger.warn({ event: 'node.forgotten', nodes: this.size }, message);
  }

  /** @param isBack whether the engine has just come back, maybe empty, so that other nodes may not have announced themselves yet. */
  #handleList({ nodes, version, now }: NodeList, isBack: boolean): void {
    const { incarnation, clock, logger } = this.#options;
    this.#compareClocks(now);
    if (!this.#isMember) {
      this.#isMember = true;
      logger.info({ event: 'node.member', node: incarnation }, 'this node is a member of the cluster');
    }
    const time = clock.now();
    if (isBack) {
      this.#completeFrom = time + LEASE_MS;
      this.#options.onForgotten?.();
      for (const member of this.#others.values()) member.aliveUntil = time + LEASE_MS;
    }
    this.#version = version;
    if (nodes === undefined) this.#keepListed(time);
    else this.#readList(nodes);
    for (const [name, { address, aliveUntil, isListed }] of this.#others) {
      if (aliveUntil > time && (isListed || time < this.#completeFrom)) continue;
      this.#others.delete(name);
      logger.info({ event: 'node.left', node: name, address }, 'a node has left the cluster');
    }
  }

  /** All nodes of the last list have leases. A list tells when one is over; until then only what this node misses itself counts. */
  #keepListed(time: number): void {
    for (const member of this.#others.values()) if (member.isListed) member.aliveUntil = time + LEASE_MS;
  }

  #readList(nodes: readonly ListedNode[]): void {
    for (const member of this.#others.values()) member.isListed = false;
    for (const listed of nodes.slice(0, MAX_NODES + 1)) {
      if (listed.incarnation === this.#options.incarnation) continue;
      const node = this.#read(listed);
      if (node !== undefined) this.#note(node, listed.leaseMs);
    }
    const names = new Set(nodes.map((node) => node.incarnation));
    for (const name of this.#refused) if (!names.has(name)) this.#refused.delete(name);
  }

  #note({ incarnation, address, proof, draining }: KnownNode, leaseMs: number): void {
    const aliveUntil = this.#options.clock.now() + Math.min(leaseMs, LEASE_MS);
    const known = this.#others.get(incarnation);
    if (known !== undefined) {
      known.aliveUntil = Math.max(known.aliveUntil, aliveUntil);
      known.draining = draining;
      known.isListed = true;
      return;
    }
    if (this.#others.size >= MAX_NODES) return;
    this.#others.set(incarnation, { incarnation, address, proof, draining, isListed: true, aliveUntil });
    const fields = { event: 'node.joined', node: incarnation, address };
    this.#options.logger.info(fields, 'a node has joined the cluster');
  }

  #read({ incarnation, record }: ListedNode): KnownNode | undefined {
    const { logger, refusalOf } = this.#options;
    const read = readRecord(record);
    const node = read && { incarnation, ...read };
    const known = this.#others.get(incarnation);
    // A list has all nodes, of which few are new.
    if (node !== undefined && known?.address === node.address && known.proof === node.proof) return node;
    const why = node === undefined ? 'is malformed' : refusalOf(node);
    if (why === undefined) return node;
    if (this.#refused.has(incarnation) || this.#refused.size >= MAX_NODES) return undefined;
    this.#refused.add(incarnation);
    logger.warn({ event: 'node.refused', node: incarnation.slice(0, 32) }, `the record of a node ${why}`);
    return undefined;
  }

  #compareClocks(engine: number): void {
    const offMs = Math.round(this.#options.now() - engine);
    const isSkewed = Math.abs(offMs) > MAX_SKEW_MS;
    if (isSkewed && !this.#isSkewed) {
      const fields = { event: 'clock.skewed', offMs };
      this.#options.logger.warn(fields, `the clocks of this node and of the engine differ by ${offMs} ms`);
    }
    this.#isSkewed = isSkewed;
  }
}

function readRecord(record: string): NodeRecord | undefined {
  if (record.length > MAX_RECORD) return undefined;
  let parsed: unknown;
  try {
    parsed = JSON.parse(record);
  } catch {
    return undefined;
  }
  if (!isFields(parsed)) return undefined;
  const address = get(parsed, 'address');
  const proof = get(parsed, 'proof');
  const draining = get(parsed, 'draining') === true;
  return typeof address === 'string' && typeof proof === 'string' ? { address, proof, draining } : undefined;
}
