import type { Server as HttpServer, IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { Subprotocol } from '@parlance/protocol';
import { loggable, MAX_PIECE_SIZE } from '@parlance/protocol/internal';
import { checkHost, checkOrigin, chooseSubprotocol, pathOf, type Refusal } from '../admission/admission.js';
import type { ResolvedServerOptions } from '../options.js';
import { addressKey, clientAddress, isForwarded } from './addresses.js';
import { createWebSocketAdapter, type ServerWire, type WebSocketAdapter } from './ws.js';

/** The far end of a connection before it has authenticated. */
export interface Peer {
  /** The client's address, after the trusted proxies are taken out. */
  readonly ip: string;
  readonly request: IncomingMessage;
}

export interface UpgradesOptions {
  readonly options: ResolvedServerOptions;
  /** Counts an upgrade, or returns the milliseconds for which the address is not listened to. */
  readonly connect: (address: string) => number;
  /** The upgrade is complete; `refusal` is what the client is to be told in REJECT. */
  readonly onWire: (
    wire: ServerWire,
    peer: Peer,
    subprotocol: Subprotocol,
    refusal: Refusal | undefined,
  ) => void;
}

/** Room for the header of a frame that carries a message of the largest size. */
const FRAME_HEAD_ROOM = 16 * 1024;
/** What the WebSocket library and timers take at most. */
const MAX_INT = 2 ** 31 - 1;

/** Upgrades of HTTP servers to WebSockets: which are completed, and with what. */
export class Upgrades {
  readonly #host: UpgradesOptions;
  readonly #adapter: WebSocketAdapter;
  readonly #attached = new Set<() => void>();
  #hasWarned = false;

  constructor(host: UpgradesOptions) {
    this.#host = host;
    const { limits, timers } = host.options;
    const maxPayload =
      Math.max(limits.maxMessageSize, limits.maxHandshakeSize, MAX_PIECE_SIZE) + FRAME_HEAD_ROOM;
    this.#adapter = createWebSocketAdapter({
      maxPayload: Math.min(maxPayload, MAX_INT),
      maxFragments: Number.isFinite(limits.maxFragments) ? limits.maxFragments : 0,
      closeTimeoutMs: Math.min(timers.closingTimeoutMs, MAX_INT),
    });
  }

  /** @param ownsServer nobody else answers for other paths. */
  attach(server: HttpServer, ownsServer: boolean): () => void {
    const onUpgrade = (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      try {
        this.#handleUpgrade(request, socket, head, ownsServer);
      } catch (error) {
        // There may be no session yet that could end.
        this.#host.options.logger.error(
          { event: 'upgrade.failed', err: loggable(error) },
          'an upgrade failed, its connection is dropped',
        );
        socket.destroy();
      }
    };
    server.on('upgrade', onUpgrade);
    const detach = () => {
      server.off('upgrade', onUpgrade);
      this.#attached.delete(detach);
    };
    this.#attached.add(detach);
    return detach;
  }

  detachAll(): void {
    for (const detach of this.#attached) detach();
  }

  #handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer, ownsServer: boolean): void {
    const { options, connect, onWire } = this.#host;
    const { path, trustedProxies } = options;
    if (pathOf(request) !== path) {
      // Another path of somebody else's server is somebody else's business.
      if (ownsServer) refuseUpgrade(socket, 404, `There is nothing here; sessions are at ${path}.`);
      return;
    }
    if (hasBody(request)) {
      refuseUpgrade(socket, 400, 'An upgrade to a WebSocket has no body.');
      return;
    }
    const subprotocol = chooseSubprotocol(request.headers['sec-websocket-protocol']);
    if (subprotocol === undefined) {
      const both = `${Subprotocol.BINARY} and ${Subprotocol.JSON}`;
      refuseUpgrade(socket, 400, `Offer one of the subprotocols ${both}.`);
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
    this.#adapter.upgrade(request, socket, head, subprotocol, (wire) =>
      onWire(wire, { ip, request }, subprotocol, refusal),
    );
  }

  /** Behind a proxy that nobody told of, all clients have one address, and its limits between them. */
  #warnOfProxy(): void {
    if (this.#hasWarned) return;
    this.#hasWarned = true;
    this.#host.options.logger.warn(
      { event: 'server.proxied' },
      'X-Forwarded-For is not believed: list the proxy in trustedProxies if it is yours',
    );
  }
}

/** A proxy before the server may take the body for the beginning of the next request. */
function hasBody({ headers }: IncomingMessage): boolean {
  const length = headers['content-length'];
  return headers['transfer-encoding'] !== undefined || (length !== undefined && !/^0+$/.test(length));
}

const REASONS = {
  400: 'Bad Request',
  404: 'Not Found',
  429: 'Too Many Requests',
  503: 'Service Unavailable',
};

/**
 * Refuses in HTTP what is no session at all, and those who do not stop asking.
 *
 * @param retryAfterMs said to the client in whole seconds.
 */
function refuseUpgrade(
  socket: Duplex,
  status: keyof typeof REASONS,
  message: string,
  retryAfterMs?: number,
): void {
  socket.on('error', () => {});
  const body = `${message}\n`;
  const head = [
    `HTTP/1.1 ${status} ${REASONS[status]}`,
    'Connection: close',
    'Content-Type: text/plain; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    ...(retryAfterMs === undefined ? [] : [`Retry-After: ${Math.ceil(retryAfterMs / 1000)}`]),
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
}
