import {
  createServer,
  type IncomingMessage,
  maxHeaderSize,
  type Server,
  type ServerOptions,
} from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { TlsOptions } from 'node:tls';
import { type Logger, ProtocolError, type Subprotocol, type Timers } from '@parlance/protocol';
import { loggable, systemClock } from '@parlance/protocol/internal';
import { socketKey } from '../transport/http/addresses.js';
import { closeListener, listenOn } from '../transport/http/listener.js';
import { refuseUpgrade } from '../transport/http/refuse-upgrade.js';
import { chooseSubprotocol, pathOf } from '../transport/http/site.js';
import { hasBody } from '../transport/http/upgrade.js';
import type { Transport } from '../transport/transport.js';
import type { WebSocketAdapter } from '../transport/websocket/ws.js';
import type { ServicePlaces } from './service-places.js';
import type { Ticket, TicketRefusal } from './ticket.js';

/** The path of the port, and the scheme of its tickets. */
export const PEER_PATH = '/parlance/peer';
/**
 * The paths of connections that nodes have for themselves: links, which have this version, so that a node of another one does
 * not have the path; and what asks others whether they reach the engine.
 */
export const PATHS = { link: '/parlance/link/2', standing: '/parlance/standing' } as const;
export const TICKET_SCHEME = 'Parlance';

/** Connections that have not shown a ticket; beyond them the oldest one is closed. */
export const MAX_STRANGERS = 256;
/** A ticket holds the headers of a client, which JSON and base64 make longer. */
const MAX_HEADER_SIZE = 3 * maxHeaderSize + 8 * 1024;
/** Refusals are logged once per address in this time, in milliseconds. */
const LOG_INTERVAL_MS = 60_000;
const MAX_LOGGED = 1_000;

/** A service for which another node may connect besides the connections of clients. */
export interface PeerService {
  readonly adapter: WebSocketAdapter;
  readonly accept: (ticket: string) => { readonly source: string } | TicketRefusal;
  readonly onWire: (wire: Transport, source: string) => void;
  /** How many connections there may be. */
  readonly places: ServicePlaces;
}

export interface PeerPortOptions {
  readonly host: string;
  readonly port: number;
  readonly tls: TlsOptions | undefined;
  readonly timers: Timers;
  readonly logger: Logger;
  readonly adapter: WebSocketAdapter;
  readonly accept: (ticket: string) => Ticket | TicketRefusal;
  /** By path. */
  readonly services?: ReadonlyMap<string, PeerService> | undefined;
  readonly hasSession: (sessionId: string) => boolean;
  /** It may be here in a moment. @default never */
  readonly isArriving?: ((sessionId: string) => boolean) | undefined;
  readonly onWire: (wire: Transport, request: IncomingMessage, ticket: Ticket) => void;
}

/** Status codes of HTTP for a ticket that is not accepted. */
const STATUS = { wrong: 401, expired: 401, replayed: 401, other_node: 410, full: 503 } as const;

/** The port at which other nodes pass on connections. It accepts nothing without a ticket. */
export class PeerPort {
  readonly #options: PeerPortOptions;
  readonly #http: Server;
  /** Connections that have not shown a ticket, oldest first, by address and port: TLS wraps a socket in another one. */
  readonly #strangers = new Map<string, Socket>();
  readonly #logged = new Map<string, number>();

  private constructor(options: PeerPortOptions) {
    this.#options = options;
    const { tls, timers } = options;
    const timeout = Number.isFinite(timers.helloTimeoutMs) ? Math.max(1, timers.helloTimeoutMs) : 0;
    const http: ServerOptions = {
      headersTimeout: timeout,
      requestTimeout: timeout,
      connectionsCheckingInterval: Math.min(5_000, timeout || 5_000),
      maxHeaderSize: MAX_HEADER_SIZE,
    };
    this.#http =
      tls === undefined
        ? createServer(http)
        : createSecureServer({ ...http, ...tls, handshakeTimeout: timeout || 5_000 });
    // A connection counts from TCP on, before TLS.
    this.#http.on('connection', (socket) => this.#handleStranger(socket));
    this.#http.on('request', (_request, response) => {
      response.writeHead(426, { 'content-type': 'text/plain; charset=utf-8', connection: 'close' });
      response.end('This port is for the nodes of a Parlance cluster.\n');
    });
    this.#http.on('upgrade', (request, socket, head) => this.#handleUpgrade(request, socket, head));
  }

  /** @throws {ProtocolError} `connection_failed` if the port cannot be opened; `invalid_option` for wrong `tls`. */
  static async open(options: PeerPortOptions): Promise<PeerPort> {
    let port: PeerPort;
    try {
      port = new PeerPort(options);
    } catch (cause) {
      throw new ProtocolError('invalid_option', `cluster.tls: ${(cause as Error).message}`, { cause });
    }
    const { host } = options;
    await listenOn(port.#http, { port: options.port, host, exclusive: true }, options.logger);
    return port;
  }

  /** The address at which it listens, as written in a URL. */
  get address(): string {
    const { address, family, port } = this.#http.address() as AddressInfo;
    const scheme = this.#options.tls === undefined ? 'ws' : 'wss';
    return `${scheme}://${family === 'IPv6' ? `[${address}]` : address}:${port}`;
  }

  /** Connections that have not shown a ticket. */
  get strangers(): number {
    return this.#strangers.size;
  }

  async close(): Promise<void> {
    const closed = closeListener(this.#http);
    for (const socket of this.#strangers.values()) socket.destroy();
    this.#http.closeAllConnections();
    await closed;
  }

  #handleStranger(socket: Socket): void {
    const key = keyOf(socket);
    this.#strangers.set(key, socket);
    socket.once('close', () => {
      if (this.#strangers.get(key) === socket) this.#strangers.delete(key);
    });
    if (this.#strangers.size <= MAX_STRANGERS) return;
    const [[name, oldest] = []] = this.#strangers;
    this.#strangers.delete(name as string);
    oldest?.destroy();
  }

  #handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const { accept, adapter, hasSession, logger, onWire, services } = this.#options;
    socket.on('error', () => {});
    try {
      const path = pathOf(request);
      const service = services?.get(path ?? '');
      if (path !== PEER_PATH && service === undefined)
        return refuseUpgrade(socket, 404, `The path is ${PEER_PATH}.`);
      const subprotocol: Subprotocol | undefined = chooseSubprotocol(
        request.headers['sec-websocket-protocol'],
      );
      if (hasBody(request) || subprotocol === undefined)
        return refuseUpgrade(socket, 400, 'Not an upgrade of a node.');
      const [scheme, text = '', ...rest] = (request.headers.authorization ?? '').split(' ');
      const isTicket = scheme === TICKET_SCHEME && rest.length === 0;
      if (service !== undefined) {
        const peer = isTicket ? service.accept(text) : 'wrong';
        if (typeof peer === 'string') {
          this.#report(request, peer);
          return refuseUpgrade(socket, STATUS[peer], 'The ticket is not accepted.');
        }
        if (!service.places.tryTake(peer.source, socket)) {
          this.#report(request, 'full');
          return refuseUpgrade(socket, STATUS.full, 'Too many connections of other nodes.');
        }
        this.#strangers.delete(keyOf(request.socket));
        return service.adapter.upgrade(request, socket, head, subprotocol, (wire) =>
          service.onWire(wire, peer.source),
        );
      }
      const ticket = isTicket ? accept(text) : 'wrong';
      if (typeof ticket === 'string') {
        this.#report(request, ticket);
        return refuseUpgrade(socket, STATUS[ticket], 'The ticket is not accepted.');
      }
      if (ticket.subprotocol !== subprotocol)
        return refuseUpgrade(socket, 401, 'The ticket is for another subprotocol.');
      if (!hasSession(ticket.sessionId) && this.#options.isArriving?.(ticket.sessionId) === true)
        return refuseUpgrade(socket, 503, 'The session is about to be here.');
      // Its owner has forgotten it, so the client begins a new session where it is.
      if (!hasSession(ticket.sessionId)) return refuseUpgrade(socket, 410, 'The session is not here.');
      this.#strangers.delete(keyOf(request.socket));
      adapter.upgrade(request, socket, head, subprotocol, (wire) => onWire(wire, request, ticket));
    } catch (error) {
      const fields = { event: 'peer.failed', err: loggable(error) };
      logger.error(fields, 'an upgrade of another node failed; its connection is dropped');
      socket.destroy();
    }
  }

  /** A flood of wrong tickets must not flood the log. */
  #report({ socket }: IncomingMessage, reason: TicketRefusal): void {
    const key = `${socketKey(socket)} ${reason}`;
    const now = systemClock.now();
    if (now - (this.#logged.get(key) ?? -Infinity) < LOG_INTERVAL_MS) return;
    this.#logged.delete(key);
    this.#logged.set(key, now);
    if (this.#logged.size > MAX_LOGGED) this.#logged.delete(this.#logged.keys().next().value as string);
    const fields = { event: 'peer.refused', ip: socket.remoteAddress, reason };
    this.#options.logger.warn(fields, 'a connection at the port for other nodes was refused');
  }
}

function keyOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
