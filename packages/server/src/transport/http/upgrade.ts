import type { Server as HttpServer, IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { ProtocolError, Subprotocol } from '@parlance/protocol';
import { HELLO_READ, loggable, MAX_PIECE_SIZE } from '@parlance/protocol/internal';
import type { Transport } from '../transport.js';
import { createWebSocketAdapter } from '../websocket/adapter.js';
import type { WebSocketAdapter, WebSocketAdapterOptions } from '../websocket/ws.js';
import { addressKey, clientAddress, isForwarded } from './addresses.js';
import { assertHttpServer } from './attachable.js';
import { takeEarlyHello } from './early-hello.js';
import type { HttpOptions } from './options.js';
import { refuseUpgrade } from './refuse-upgrade.js';
import { checkHost, checkOrigin, chooseSubprotocol, pathOf, type Refusal } from './site.js';
import { Unclaimed } from './unclaimed.js';

/** The far end of a connection before it has authenticated. */
export interface Peer {
  /** The client's address, as reported by trusted proxies if there are any. */
  readonly ip: string;
  readonly request: IncomingMessage;
}

export interface UpgradesOptions {
  readonly options: HttpOptions;
  /** Counts an upgrade and returns 0, or returns the milliseconds for which the address gets HTTP 429. */
  readonly connect: (address: string) => number;
  /** Another server takes new connections: the milliseconds after which clients come back; `undefined` if this one does. */
  readonly retryElsewhere?: (() => number | undefined) | undefined;
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
  readonly #unclaimed: Unclaimed;
  readonly #attached = new Map<HttpServer, () => void>();
  #hasWarned = false;

  constructor(host: UpgradesOptions) {
    this.#host = host;
    this.#adapter = createWebSocketAdapter(webSocketOptions(host.options));
    this.#unclaimed = new Unclaimed(host.options);
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
        if (pathOf(request) === this.#host.options.path) {
          if (socket.destroyed || socket.writableEnded) return this.#unclaimed.warnOfOther();
          this.#handleUpgrade(request, socket, head);
          if (server.listenerCount('upgrade') > 1) keepFromOthers(socket);
        } else this.#unclaimed.handle(request, socket, server, onUpgrade);
      } catch (error) {
        // There may be no session yet that this could end.
        this.#host.options.logger.error(
          { event: 'upgrade.failed', err: loggable(error) },
          'an upgrade failed; its connection is dropped',
        );
        socket.destroy();
      }
    };
    this.#unclaimed.register(onUpgrade, server);
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

  #handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const { options, connect, onWire } = this.#host;
    const { trustedProxies } = options;
    if (hasBody(request)) {
      refuseUpgrade(socket, 400, 'A WebSocket upgrade request must not have a body.');
      return;
    }
    const offered = takeEarlyHello(request);
    const subprotocol = chooseSubprotocol(request.headers['sec-websocket-protocol']);
    if (subprotocol === undefined) {
      const both = `${Subprotocol.BINARY} and ${Subprotocol.JSON}`;
      refuseUpgrade(socket, 400, `Offer one of the WebSocket subprotocols ${both}.`);
      return;
    }
    const retryMs = this.#host.retryElsewhere?.();
    if (retryMs !== undefined) {
      refuseUpgrade(socket, 503, 'This node is shutting down; another one takes connections.', retryMs);
      return;
    }
    if (trustedProxies.isEmpty && isForwarded(request)) this.#warnOfProxy();
    const ip = clientAddress(request, trustedProxies);
    const wait = connect(addressKey(ip));
    if (wait > 0) {
      refuseUpgrade(socket, 429, 'Too many connections from this address.', wait);
      return;
    }
    const refusal = checkHost(request, options) ?? checkOrigin(request, options);
    const hello = options.earlyHello && subprotocol === Subprotocol.BINARY ? offered : undefined;
    const selected = hello === undefined ? subprotocol : HELLO_READ;
    this.#adapter.upgrade(request, socket, head, selected, (wire) =>
      onWire(wire, { ip, request }, subprotocol, refusal, hello),
    );
  }

  /** Behind a proxy that is not listed, all clients share one address and its limits. */
  #warnOfProxy(): void {
    if (this.#hasWarned) return;
    this.#hasWarned = true;
    this.#host.options.logger.warn(
      { event: 'server.proxied' },
      'X-Forwarded-For is ignored; if the proxy is yours, list it in trustedProxies',
    );
  }
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
