import type { Server as HttpServer, IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { ProtocolError, Subprotocol } from '@parlance/protocol';
import { HELLO_READ, loggable, MAX_PIECE_SIZE, type MemoryBudget } from '@parlance/protocol/internal';
import { type Transport, type TransportEvents, terminateSoon } from '../transport.js';
import { createWebSocketAdapter } from '../websocket/adapter.js';
import { bounded } from '../websocket/bounded.js';
import { keepAlive } from '../websocket/keep-alive.js';
import type { WebSocketAdapter, WebSocketAdapterOptions } from '../websocket/ws.js';
import { assertHttpServer } from './attachable.js';
import type { Door, Peer, TurnedAway } from './door.js';
import { takeEarlyHello } from './early-hello.js';
import type { HttpOptions } from './options.js';
import { refuseUpgrade } from './refuse-upgrade.js';
import { chooseSubprotocol, pathOf, type Refusal, subprotocolsOf } from './site.js';
import { takerOf, UnhandledUpgrades } from './unhandled-upgrades.js';

/** A WebSocket of any protocol. */
export interface OpenSocket extends Transport {
  /**
   * Call it before `open` returns: messages that arrive without a listener are lost, and `hold` stops reading. An error that a
   * listener throws closes the WebSocket.
   */
  listen(events: Partial<TransportEvents>): void;
}

/** Takes WebSockets at a path beside that of sessions. */
export interface UpgradeTarget {
  /** Of the client's list; a client that does not offer it gets HTTP 400. @default none is selected */
  readonly subprotocol?: string | undefined;
  /**
   * A WebSocket is open. Its messages are those of any protocol.
   *
   * @param socket has messages of up to the size that sessions may have, and the bounds of their WebSockets. It is pinged while it is
   * open, and cut if its client answers none of three pings.
   * @param peer has passed the checks of host, origin and rates; it is not authenticated.
   */
  open(socket: OpenSocket, peer: Peer): void;
}

export interface UpgradesOptions {
  readonly options: HttpOptions;
  readonly door: Pick<Door, 'enter' | 'enterOnce'>;
  readonly memory: MemoryBudget;
  /** Of features. `failed` if one of them cannot say whether it has the path. */
  readonly targetAt: (path: string) => UpgradeTarget | 'failed' | undefined;
  /** The upgrade is complete; `refusal` is to be sent in REJECT. `hello` has come with the request. */
  readonly onWire: (
    wire: Transport,
    peer: Peer,
    subprotocol: Subprotocol,
    refusal: Refusal | undefined,
    hello: Uint8Array | undefined,
  ) => void;
}

/** Bytes for the link header around a message of the largest size. */
const FRAME_HEAD_ROOM = 16 * 1024;
/** The close code of RFC 6455 for a server that closes. */
const GOING_AWAY = 1001;
/** The largest number that the WebSocket library and timers accept. */
const MAX_INT = 2 ** 31 - 1;

/** The bounds of every WebSocket of a server. */
export function webSocketOptions({
  limits,
  timers,
  wire,
}: Pick<HttpOptions, 'limits' | 'timers' | 'wire'>): WebSocketAdapterOptions {
  const maxPayload =
    Math.max(limits.maxMessageSize, limits.maxHandshakeSize, MAX_PIECE_SIZE) + FRAME_HEAD_ROOM;
  return {
    maxPayload: Math.min(maxPayload, MAX_INT),
    maxFragments: Number.isFinite(limits.maxFragments) ? limits.maxFragments : 0,
    closeTimeoutMs: Math.min(timers.closingTimeoutMs, MAX_INT),
    wire,
  };
}

/** Decides which upgrade requests of HTTP servers become WebSockets. */
export class Upgrades {
  readonly #host: UpgradesOptions;
  readonly #adapter: WebSocketAdapter;
  readonly #unhandled: UnhandledUpgrades;
  readonly #attached = new Map<HttpServer, () => void>();
  /** WebSockets of features. */
  readonly #sockets = new Set<Transport>();

  constructor(host: UpgradesOptions) {
    this.#host = host;
    this.#adapter = createWebSocketAdapter(webSocketOptions(host.options));
    this.#unhandled = new UnhandledUpgrades(host.options, (path) => host.targetAt(path) !== undefined);
  }

  /**
   * Upgrades for other paths are left to the other listeners of the HTTP server, and answered if none takes them.
   *
   * @throws {ProtocolError} `invalid_argument` if it is not an HTTP server, or if this one is attached to it already, or another one
   * at the same path.
   */
  attach(server: HttpServer): () => void {
    assertHttpServer(server);
    if (this.#attached.has(server)) {
      throw new ProtocolError(
        'invalid_argument',
        'attach: this server is attached to that HTTP server already',
      );
    }
    const onUpgrade = (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      try {
        const isOurs = pathOf(request) === this.#host.options.path || takerOf(request, server) === onUpgrade;
        if (!isOurs) return this.#unhandled.handle(request, socket, server, onUpgrade);
        if (socket.destroyed || socket.writableEnded) return this.#unhandled.warnOfOther();
        this.#handleUpgrade(request, socket, head);
        if (server.listenerCount('upgrade') > 1) keepFromOthers(socket);
      } catch (error) {
        // There may be no session yet that this could end.
        this.#host.options.logger.error(
          { event: 'upgrade.failed', err: loggable(error) },
          'an upgrade failed; its connection is dropped',
        );
        socket.destroy();
      }
    };
    this.#unhandled.register(onUpgrade, server);
    server.on('upgrade', onUpgrade);
    const detach = () => {
      server.off('upgrade', onUpgrade);
      if (this.#attached.get(server) === detach) this.#attached.delete(server);
    };
    this.#attached.set(server, detach);
    return detach;
  }

  detachAll(): void {
    for (const detach of this.#attached.values()) detach();
  }

  /** Closes the WebSockets of features, which would keep their HTTP server from closing. */
  closeSockets(): void {
    for (const socket of this.#sockets) {
      socket.close(GOING_AWAY, '');
      terminateSoon(socket);
    }
  }

  #handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    if (hasBody(request))
      return refuseUpgrade(socket, 400, 'A WebSocket upgrade request must not have a body.');
    const path = pathOf(request) as string;
    if (path === this.#host.options.path) return this.#openSession(request, socket, head);
    const target = this.#host.targetAt(path);
    if (target === 'failed') refuseUpgrade(socket, 500, 'The server has failed; its log says why.');
    else if (target !== undefined) this.#open(target, request, socket, head);
  }

  #openSession(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const { options, onWire } = this.#host;
    const offered = takeEarlyHello(request);
    const subprotocol = chooseSubprotocol(request.headers['sec-websocket-protocol']);
    if (subprotocol === undefined) {
      const both = `${Subprotocol.BINARY} and ${Subprotocol.JSON}`;
      return refuseUpgrade(socket, 400, `Offer one of the WebSocket subprotocols ${both}.`);
    }
    const arrival = this.#host.door.enter(request);
    if ('status' in arrival) return turnAway(socket, arrival);
    const hello = options.earlyHello && subprotocol === Subprotocol.BINARY ? offered : undefined;
    const selected = hello === undefined ? subprotocol : HELLO_READ;
    this.#adapter.upgrade(request, socket, head, selected, (wire) =>
      onWire(wire, arrival, subprotocol, arrival.refusal, hello),
    );
  }

  #open(target: UpgradeTarget, request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const { subprotocol } = target;
    const offered = subprotocolsOf(request.headers['sec-websocket-protocol']);
    if (subprotocol !== undefined && !offered.includes(subprotocol))
      return refuseUpgrade(socket, 400, `Offer the WebSocket subprotocol ${subprotocol}.`);
    // The feature may ask who the client is.
    const arrival = this.#host.door.enterOnce(request);
    if ('status' in arrival) return turnAway(socket, arrival);
    const { ip, refusal } = arrival;
    if (refusal !== undefined) {
      const fields = { event: 'upgrade.refused', ip, path: pathOf(request) };
      this.#host.options.logger.info(fields, `refused: ${refusal.message}`);
      return refuseUpgrade(socket, 403, refusal.message);
    }
    this.#adapter.upgrade(request, socket, head, subprotocol, (wire) => {
      const { options, memory } = this.#host;
      const endPings = keepAlive(wire, options.timers.pingIntervalMs);
      this.#sockets.add(wire);
      socket.once('close', () => {
        endPings();
        this.#sockets.delete(wire);
      });
      target.open(bounded(wire, options.limits, memory), { ip, request });
    });
  }
}

function turnAway(socket: Duplex, { status, message, retryAfterMs }: TurnedAway): void {
  refuseUpgrade(socket, status, message, retryAfterMs);
}

/** A proxy in front of the server may read the body as the beginning of the next request. */
export function hasBody({ headers }: IncomingMessage): boolean {
  const length = headers['content-length'];
  return headers['transfer-encoding'] !== undefined || (length !== undefined && !/^0+$/.test(length));
}

/**
 * Listeners that are called after this one have no say any more: ws with `{ server, path }` answers HTTP 400 for each path but its
 * own, in the same turn.
 */
function keepFromOthers(socket: Duplex): void {
  if (socket.destroyed || socket.writableEnded) return;
  const { end } = socket;
  socket.end = (() => socket) as Duplex['end'];
  // Before anything that waits, such as the answer to HELLO, may end it.
  process.nextTick(() => {
    socket.end = end;
  });
}
