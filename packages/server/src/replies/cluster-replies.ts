import { isProtocolError, type Logger, type ResumeOffer } from '@parlance/protocol';
import { incarnationOf, loggable, type Reservation } from '@parlance/protocol/internal';
import type { ReplyEngine, ReplySource } from '../backplane/replies.js';
import type { KnownNode } from '../cluster/membership.js';
import { RemoteReplies } from '../cluster/replies/remote-replies.js';
import type { RepliesPeers } from '../cluster/replies/replies-peers.js';
import type { RepliesSource } from '../cluster/replies/replies-source.js';
import type { ServerEndpoint } from '../endpoint.js';
import { ClusterReplyLog } from './cluster-log.js';
import { EngineReplyLog, NO_WRITER } from './engine-log.js';
import { type HandedOver, HandOver } from './hand-over.js';
import type { NodeReplyLog, ReplyLog } from './log.js';
import { NodeReplies } from './node-replies.js';
import type { ResolvedRepliesOptions } from './options.js';
import type { Owners } from './owners.js';
import type { Recording } from './recording.js';
import { hashOf, Vouching } from './vouching.js';

/** What the node of a cluster does for kept replies. */
export interface RepliesNode {
  readonly incarnation: string;
  readonly peers: RepliesPeers;
  /** Milliseconds of a clock. */
  readonly clock: () => number;
  /** A node that counts as alive. @throws {ProtocolError} if the engine does not answer, and the node is unknown without it. */
  readonly locate: (incarnation: string) => Promise<KnownNode | undefined>;
  /** The other nodes that count as alive. */
  readonly others: () => readonly KnownNode[];
  /** Those of them that do not drain. */
  readonly takers: () => readonly KnownNode[];
  /** @throws {ProtocolError} if the engine does not answer. */
  readonly place: (id: string, ttlMs: number) => Promise<void>;
  /** @throws {ProtocolError} if the engine does not answer. */
  readonly placeOf: (id: string) => Promise<string | undefined>;
  /** @throws {ProtocolError} `over_budget`. */
  readonly reserve: (size: number) => Reservation;
  /** Keeps replies instead of the nodes. @default each node keeps its own */
  readonly engine?: ReplyEngine | undefined;
  /** How long a client may be away before its session is over, in milliseconds. @default 0 */
  readonly awaitMs?: number | undefined;
  /** See `OrphansOptions`. */
  readonly isAwaited?: ((source: ReplySource, id: string) => Promise<boolean>) | undefined;
}

interface Parts {
  readonly log: NodeReplyLog;
  readonly running: ReadonlyMap<string, Recording>;
  readonly owners: Owners;
  readonly logger: Logger;
  readonly options: ResolvedRepliesOptions;
  /** Unix milliseconds. */
  readonly now: () => number;
}

/** The kept replies of a cluster, as one of its nodes sees them. */
export class ClusterReplies {
  readonly incarnation: string;
  readonly log: ReplyLog;
  /** Set if the engine keeps the replies. */
  readonly engine: EngineReplyLog | undefined;
  readonly source: RepliesSource;
  readonly #parts: Parts;
  readonly #node: RepliesNode;
  readonly #remote: RemoteReplies;
  readonly #handOver: HandOver;
  readonly #vouching: Vouching | undefined;
  /** Sessions whose owners other nodes are asked for. */
  readonly #proofs = new WeakMap<ServerEndpoint, Promise<void>>();
  #isDraining = false;

  constructor(parts: Parts, node: RepliesNode) {
    const { log, logger, options } = parts;
    const { incarnation, peers, locate, others, place, placeOf, reserve, clock } = node;
    this.incarnation = incarnation;
    this.#parts = parts;
    this.#node = node;
    const source = new NodeReplies({
      ...parts,
      maxReplyBytes: options.bounds.maxReplyBytes,
      isDraining: () => this.#isDraining,
      reserve,
      announce: place,
    });
    const movedTo = (id: string) => source.movedTo(id);
    const remote = { incarnation, peers, logger, now: clock, locate, others, placeOf, movedTo };
    this.#remote = new RemoteReplies(remote);
    this.source = source;
    this.log = new ClusterReplyLog(log, this.#remote);
    this.engine =
      node.engine &&
      new EngineReplyLog({
        engine: node.engine,
        bounds: options.bounds,
        incarnation,
        logger,
        now: parts.now,
        awaitMs: node.awaitMs,
        isAwaited: node.isAwaited,
        isAlive: async (name) => (await locate(name)) !== undefined,
      });
    const vouching = { owners: parts.owners, logger, now: parts.now };
    this.#vouching = node.engine && new Vouching({ ...vouching, engine: node.engine });
    this.#handOver = new HandOver({
      log,
      logger,
      others: node.takers,
      linkTo: (other) => peers.linkTo(other),
      onMoved: (id, other) => source.handleMoved(id, other),
    });
  }

  get watched(): number {
    return this.#remote.watched;
  }

  get handedOver(): HandedOver {
    return this.#handOver.counts;
  }

  /** Stops a reply of another node. @throws {ProtocolError} `interrupted`, `timeout`. */
  async stop(id: string, principal: string): Promise<void> {
    const { engine } = this;
    const writer = await engine?.writerOf(id);
    if (engine !== undefined && writer === NO_WRITER) return await engine.cancel(id);
    try {
      await this.#remote.stop(id, principal, writer);
    } catch (error) {
      const isGone = isProtocolError(error) && error.code === 'interrupted';
      if (engine === undefined || !isGone) throw error;
      await engine.cancel(id);
    }
  }

  /** Asks the node that has had a session without a principal who the session that begins in its place acts for. */
  prove(session: ServerEndpoint, { sessionId, token }: ResumeOffer): void {
    const node = incarnationOf(sessionId);
    if (node === undefined || (node === this.incarnation && this.engine === undefined)) return;
    this.#proofs.set(session, this.#prove(session, node, sessionId, token));
  }

  /** Resolves when it is known who a session acts for. */
  proven(session: ServerEndpoint): Promise<void> | undefined {
    return this.#proofs.get(session);
  }

  async #prove(session: ServerEndpoint, node: string, sessionId: string, token: string): Promise<void> {
    const { owners, options, logger, now } = this.#parts;
    try {
      const key = await this.#node.engine?.prove(sessionId, hashOf(token));
      const owner =
        key === undefined ? await this.#remote.prove(node, sessionId, token) : { key, keptUntil: undefined };
      if (owner === undefined) return;
      const latest = now() + options.maxTtlMs;
      owners.assign(session, owner.key, Math.min(owner.keptUntil ?? latest, latest));
    } catch (error) {
      const fields = { event: 'replies.unproven', node, session: session.id, err: loggable(error) };
      logger.warn(fields, 'a node does not say who a session acts for; it gets no replies of an earlier one');
    }
  }

  beginHandOver(): void {
    this.#isDraining = true;
    this.#handOver.start();
  }

  async finishHandOver(timeoutMs: number): Promise<void> {
    const { logger } = this.#parts;
    if (this.#node.takers().length === 0) return;
    const result = await this.#handOver.finish(timeoutMs);
    if (result.moved + result.lost === 0) return;
    logger.info({ event: 'replies.moved', ...result }, 'kept replies were handed over to other nodes');
  }

  sweep(): void {
    this.#vouching?.update();
    if (this.#isDraining) this.#handOver.start();
  }
}
