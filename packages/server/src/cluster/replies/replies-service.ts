import type { TlsOptions } from 'node:tls';
import { type MemoryBudget, overBudget, type Reservation, systemClock } from '@parlance/protocol/internal';
import type { BackplaneLink } from '../../backplane/backplane.js';
import type { ReplyEngine } from '../../backplane/replies.js';
import { isAwaited } from '../../durable/awaited.js';
import { createWebSocketAdapter, type WebSocketAdapterOptions } from '../../http/ws.js';
import type { ResolvedServerOptions } from '../../options.js';
import type { ResolvedRepliesOptions } from '../../replies/options.js';
import type { Replies } from '../../replies/replies.js';
import { dialingTo } from '../dialing.js';
import type { Membership } from '../membership.js';
import { type PeerService, REPLIES_PATH } from '../peer-port.js';
import { openNodesMemory } from '../relay/relay-quota.js';
import { SERVICE_PLACES, ServicePlaces } from '../service-places.js';
import type { Tickets } from '../ticket.js';
import { CHUNK_ROOM, CHUNK_SIZE } from './replies-message.js';
import { RepliesPeers } from './replies-peers.js';

export interface RepliesServiceOptions {
  readonly replies: Replies;
  readonly options: ResolvedServerOptions & { readonly replies: ResolvedRepliesOptions };
  /** Sessions are on record. */
  readonly isDurable: boolean;
  readonly memory: MemoryBudget;
  readonly link: BackplaneLink;
  /** Keeps the replies. @default the nodes keep them */
  readonly engine: ReplyEngine | undefined;
  readonly incarnation: string;
  readonly membership: Membership;
  readonly tickets: Tickets;
  readonly webSocket: WebSocketAdapterOptions;
  readonly tls: TlsOptions | undefined;
}

/** Joins the kept replies of a server with those of the other nodes. */
export class RepliesService {
  readonly peers: RepliesPeers;
  /** What other nodes may connect for. */
  readonly service: PeerService;
  readonly #link: BackplaneLink;
  readonly #replies: Replies;

  constructor({
    replies,
    options,
    memory,
    link,
    engine,
    incarnation,
    membership,
    isDurable,
    ...rest
  }: RepliesServiceOptions) {
    const { tickets, tls } = rest;
    // Messages between nodes are short, however long a reply is.
    const webSocket = { ...rest.webSocket, maxPayload: CHUNK_SIZE + CHUNK_ROOM };
    const { limits, logger } = options;
    const reserve = (size: number) => reserveShare(memory, limits.sessionMemory, size);
    const clock = () => systemClock.now();
    this.#link = link;
    this.#replies = replies;
    this.peers = new RepliesPeers({
      limits,
      logger,
      maxReplyBytes: options.replies.bounds.maxReplyBytes,
      reserve,
      openMemory: () => openNodesMemory(memory),
      now: clock,
      dialing: (node) => {
        const ticket = tickets.issueReplies(node.incarnation);
        return dialingTo(node, REPLIES_PATH, ticket, webSocket, tls);
      },
    });
    this.service = {
      places: new ServicePlaces(SERVICE_PLACES),
      adapter: createWebSocketAdapter(webSocket),
      accept: (ticket) => tickets.acceptReplies(ticket),
      onWire: (wire, source) => this.peers.accept(wire, source),
    };
    this.peers.source = replies.join({
      incarnation,
      peers: this.peers,
      clock,
      locate: async (name) => membership.get(name) ?? (await membership.find(name)),
      others: () => membership.living,
      takers: () => membership.living.filter(({ draining }) => draining !== true),
      place: (id, ttlMs) => link.placeReply(id, incarnation, ttlMs),
      placeOf: (id) => link.placeOfReply(id),
      reserve,
      engine,
      awaitMs: isDurable ? options.timers.resumeWindowMs : 0,
      isAwaited: (source, id) => isAwaited(link, options.seal, source, id),
    });
  }

  async close(): Promise<void> {
    await this.#replies.close();
    this.peers.close();
    await this.#link.close();
  }
}

/** Memory for what is on its way between nodes. @throws {ProtocolError} `over_budget`. */
function reserveShare(memory: MemoryBudget, sessionMemory: number, size: number): Reservation {
  const share = memory.open(sessionMemory);
  share.assign(['replies of other nodes']);
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
