import { type Limits, type Logger, type ReceivedBody, Subprotocol } from '@parlance/protocol';
import {
  createBodyCoder,
  loadedEncodings,
  loggable,
  type MemoryBudget,
  overBudget,
  type Reservation,
  type SessionMemory,
  systemClock,
} from '@parlance/protocol/internal';
import type { Directory } from '../agents/directory.js';
import type { Relay } from '../agents/relay.js';
import type { RelayTarget } from '../agents/target.js';
import type { ServerEndpoint } from '../endpoint.js';
import { dial, type ServerWire, type WebSocketAdapterOptions } from '../http/ws.js';
import type { ResolvedServerOptions } from '../options.js';
import type { KnownNode } from './membership.js';
import { RelayInlet } from './relay-inlet.js';
import { RelayLink } from './relay-link.js';
import { type RemoteAgent, type RemoteHost, RemoteTarget, type TargetHost } from './remote-session.js';

/** How long a node may take to open a connection, in milliseconds. */
const DIAL_TIMEOUT_MS = 5_000;
/** What a body takes in a message between nodes besides itself: metadata and the head. */
const MESSAGE_HEAD_ROOM = 256 * 1024;

export interface RelayPeersOptions {
  readonly options: Pick<ResolvedServerOptions, 'limits' | 'security'> & { readonly logger: Logger };
  readonly memory: MemoryBudget;
  readonly directory: Directory;
  readonly relay: Relay;
  readonly findSession: (sessionId: string) => ServerEndpoint | undefined;
  /** How to reach a node; rejects or gives `undefined` if it is gone. */
  readonly locate: (incarnation: string) => Promise<KnownNode | undefined>;
  readonly isNodeAlive: (incarnation: string) => boolean;
  /** How to dial a node. */
  readonly dialing: (node: KnownNode) => Parameters<typeof dial>[1] & { readonly url: string };
}

/** The connections to and from other nodes on which agents write to each other. */
export class RelayPeers {
  readonly #options: RelayPeersOptions;
  readonly #links = new Map<string, RelayLink>();
  readonly #inlets = new Map<RelayInlet, string>();
  #lastRef = 0;
  #isClosed = false;

  constructor(options: RelayPeersOptions) {
    this.#options = options;
    options.relay.onEnded = (session) => {
      for (const link of this.#links.values()) link.handleEnded(session);
      for (const inlet of this.#inlets.keys()) inlet.handleEnded(session);
    };
  }

  /** The stand-in for an agent of another node. */
  targetOf(node: string, agent: RemoteAgent): RemoteTarget {
    const links = this.#links;
    const host: TargetHost = {
      ...this.#host(node),
      connect: (target: RemoteTarget) => {
        const link = this.#linkTo(node);
        link.use(target);
        return link;
      },
      get wire() {
        return links.get(node);
      },
    };
    return new RemoteTarget(agent, host);
  }

  /** Another node has connected, to pass on what its agents send. */
  accept(wire: ServerWire, node: string): void {
    if (this.#isClosed) return wire.terminate();
    const { relay, directory, findSession } = this.#options;
    const inlet: RelayInlet = new RelayInlet(wire, {
      ...this.#host(node),
      relay,
      find: (sessionId) => {
        const session = findSession(sessionId);
        return session !== undefined && directory.agentOf(session) !== undefined ? session : undefined;
      },
      reserve: (body, from, to) => this.#reserve(body, from, to),
      onOver: (why) => {
        this.#inlets.delete(inlet);
        this.#report(node, why);
      },
    });
    this.#inlets.set(inlet, node);
    wire.listen(inlet);
  }

  /** Requests between this node and others that are not over. */
  get openRequests(): number {
    let open = 0;
    for (const { size } of [...this.#links.values(), ...this.#inlets.keys()]) open += size;
    return open;
  }

  handleTick(): void {
    const { isNodeAlive, relay } = this.#options;
    relay.messages.handleTick();
    for (const inlet of this.#inlets.keys()) inlet.handleTick();
    // A connection to a node that is gone may never break by itself.
    for (const [node, link] of this.#links) if (!isNodeAlive(node)) link.end(new Error('the node is gone'));
  }

  close(): void {
    this.#isClosed = true;
    for (const link of this.#links.values()) link.end();
    for (const inlet of this.#inlets.keys()) inlet.end();
  }

  #linkTo(node: string): RelayLink {
    const known = this.#links.get(node);
    if (known !== undefined) return known;
    const { relay, options } = this.#options;
    const link: RelayLink = new RelayLink({
      relay,
      newRef: () => ++this.#lastRef,
      reserve: (body, from, to) => this.#reserve(body, from, to),
      maxDepth: options.limits.maxJsonDepth,
      onOver: (why) => {
        if (this.#links.get(node) === link) this.#links.delete(node);
        this.#report(node, why);
      },
    });
    this.#links.set(node, link);
    this.#dial(node, link).catch((error: unknown) => link.end(error));
    return link;
  }

  async #dial(node: string, link: RelayLink): Promise<void> {
    const { locate, dialing } = this.#options;
    const known = await locate(node);
    if (known === undefined) throw new Error('the node is gone');
    const { url, ...options } = dialing(known);
    const abandon = dial(
      url,
      options,
      (wire) => {
        clearTimeout(timer);
        wire.listen(link);
        link.begin(wire);
      },
      ({ status, code }) => {
        clearTimeout(timer);
        link.end(new Error(`no connection: ${code ?? `HTTP ${status}`}`));
      },
    );
    const timer = setTimeout(() => {
      abandon();
      link.end(new Error(`no connection within ${DIAL_TIMEOUT_MS} ms`));
    }, DIAL_TIMEOUT_MS);
    timer.unref();
  }

  #host(node: string): RemoteHost {
    const { limits, security, logger } = this.#options.options;
    return {
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
        logger.error(fields, 'relaying with another node has failed, the connection to it is closed');
        this.#links.get(node)?.end();
        for (const [inlet, source] of this.#inlets) if (source === node) inlet.end();
      },
    };
  }

  /** The memory is the principal's, whose body it is. @throws {ProtocolError} `over_budget`. */
  #reserve(body: ReceivedBody, from: RelayTarget, to: RelayTarget): Reservation | undefined {
    const { relay, memory, options } = this.#options;
    const size = relay.transit.memoryOf(body, from, to);
    if (size === 0) return undefined;
    const share: SessionMemory = memory.open(options.limits.sessionMemory);
    share.assign([`principal ${from.principal ?? ''}`]);
    const reservation = share.tryReserve(size);
    if (reservation === undefined) {
      share.close();
      throw overBudget();
    }
    return {
      release() {
        reservation.release();
        share.close();
      },
    };
  }

  #report(node: string, why: unknown): void {
    if (why === undefined || this.#isClosed) return;
    const fields = { event: 'peer.lost', node, err: loggable(why) };
    this.#options.options.logger.warn(fields, 'the connection that relays between two nodes is lost');
  }
}

/** Options of connections that carry whole bodies. */
export function relayWebSocket(webSocket: WebSocketAdapterOptions, { maxMessageSize }: Limits) {
  const maxPayload = Math.min(maxMessageSize + MESSAGE_HEAD_ROOM, 2 ** 31 - 1);
  return { ...webSocket, maxPayload: Math.max(maxPayload, webSocket.maxPayload + MESSAGE_HEAD_ROOM) };
}

export const RELAY_SUBPROTOCOL = Subprotocol.BINARY;
