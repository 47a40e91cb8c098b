import type { Limits, Logger } from '@parlance/protocol';
import { loggable, type Reservation } from '@parlance/protocol/internal';
import { dial, type ServerWire } from '../../http/ws.js';
import type { Dialing } from '../dialing.js';
import { limitedLog } from '../limited-log.js';
import type { KnownNode } from '../membership.js';
import type { NodesMemory } from '../relay/relay-quota.js';
import { RepliesInlet } from './replies-inlet.js';
import { RepliesLink, Unanswered } from './replies-link.js';
import type { RepliesSource } from './replies-source.js';

/** How long a node may take to open a connection, in milliseconds. */
const DIAL_TIMEOUT_MS = 2_000;
/** What a reply may take in an answer beside its parts: metadata, and its failure. */
const ANSWER_ROOM = 2 * 1024 * 1024;

export interface RepliesPeersOptions {
  readonly logger: Logger;
  readonly limits: Limits;
  /** Bytes of one kept reply. */
  readonly maxReplyBytes: number;
  /** Reserves memory for a long answer. @throws {ProtocolError} `over_budget`. */
  readonly reserve: (size: number) => Reservation;
  /** The memory of what another node holds here. */
  readonly openMemory: () => NodesMemory;
  /** Milliseconds of a clock. */
  readonly now: () => number;
  /** How to dial a node. */
  readonly dialing: (node: KnownNode) => Dialing;
}

/** The connections to and from other nodes on which kept replies are read. There is one for each node and direction. */
export class RepliesPeers {
  readonly #options: RepliesPeersOptions;
  readonly #links = new Map<string, RepliesLink>();
  readonly #inlets = new Set<RepliesInlet>();
  /** The replies of this node. */
  source: RepliesSource | undefined;
  /** A reply has changed at the node that has it. */
  onChanged: (id: string) => void = () => {};
  /** What was watched on the connection has to be watched on another one. */
  onLost: (link: RepliesLink) => void = () => {};
  #isClosed = false;

  constructor(options: RepliesPeersOptions) {
    this.#options = { ...options, logger: limitedLog(options.logger) };
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** The connection to a node, which may not be open yet. */
  linkTo(node: KnownNode): RepliesLink {
    const known = this.#links.get(node.incarnation);
    if (known !== undefined) return known;
    const { limits, maxReplyBytes, now, reserve } = this.#options;
    const link: RepliesLink = new RepliesLink({
      now,
      maxAnswer: maxReplyBytes + ANSWER_ROOM,
      maxDepth: limits.maxJsonDepth,
      reserve,
      onChanged: (id) => this.onChanged(id),
      onOver: (why) => {
        if (this.#links.get(node.incarnation) === link) this.#links.delete(node.incarnation);
        this.#report(node.incarnation, why);
        this.onLost(link);
      },
    });
    if (this.#isClosed) {
      link.end();
      return link;
    }
    this.#links.set(node.incarnation, link);
    this.#dial(node, link);
    return link;
  }

  /** Another node has connected, to read. */
  accept(wire: ServerWire, node: string): void {
    const { source } = this;
    if (this.#isClosed || source === undefined) return wire.terminate();
    const { logger } = this.#options;
    const inlet: RepliesInlet = new RepliesInlet(wire, {
      source,
      logger,
      memory: this.#options.openMemory(),
      onOver: (why) => {
        this.#inlets.delete(inlet);
        this.#report(node, why);
      },
    });
    this.#inlets.add(inlet);
    wire.listen(inlet);
  }

  handleTick(): void {
    for (const link of [...this.#links.values()]) link.handleTick();
    for (const inlet of this.#inlets) inlet.handleTick();
  }

  close(): void {
    this.#isClosed = true;
    for (const link of [...this.#links.values()]) link.end();
    for (const inlet of [...this.#inlets]) inlet.end();
  }

  #dial(node: KnownNode, link: RepliesLink): void {
    const { url, ...options } = this.#options.dialing(node);
    const abandon = dial(
      url,
      options,
      (wire) => {
        clearTimeout(timer);
        wire.listen(link);
        link.begin(wire);
      },
      (failure) => {
        clearTimeout(timer);
        link.handleFailure(failure);
      },
    );
    const timer = setTimeout(() => {
      abandon();
      link.end(new Unanswered('silent', `no connection within ${DIAL_TIMEOUT_MS} ms`));
    }, DIAL_TIMEOUT_MS);
    timer.unref();
  }

  #report(node: string, why: unknown): void {
    if (why === undefined || this.#isClosed) return;
    // It is asked again, and what comes of that is logged by those who ask.
    if (why instanceof Unanswered && why.kind === 'gone') return;
    const fields = { event: 'peer.lost', node, err: loggable(why) };
    this.#options.logger.warn(fields, 'the connection on which a node reads kept replies of another is lost');
  }
}
