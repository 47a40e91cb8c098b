import { createServer as createHttpServer, type Server as HttpServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import {
  AgreementCache,
  CloseReason,
  createSweep,
  type Endpoint,
  Extension,
  type LoadableCodec,
  loadCodecs,
  loadEncoding,
  ProtocolError,
  type Session,
  Subprotocol,
  sweepInterval,
} from '@parlance/protocol';
import { createWebSocketAdapter } from './adapters/ws.js';
import { checkHost, checkOrigin, chooseSubprotocol, pathOf, type Refusal } from './admission.js';
import { type ConnectionHost, serveConnection } from './connection.js';
import { resolveServerOptions, type ServerOptions } from './options.js';

export interface ListenOptions {
  /** 0 takes a free one. @default 0 */
  readonly port?: number | undefined;
  /** @default '127.0.0.1' */
  readonly host?: string | undefined;
}

export interface Listening {
  readonly port: number;
  readonly host: string;
  /** Where clients connect to. */
  readonly url: string;
}

export interface Server extends AsyncDisposable {
  /** Sessions that are established, by ID. */
  readonly sessions: ReadonlyMap<string, Session>;
  /** Starts an HTTP server of its own. @throws {ProtocolError} `connection_failed` where the port is taken. */
  listen(options?: ListenOptions): Promise<Listening>;
  /** Serves the session path of an HTTP server that exists; the returned function takes it back. */
  attach(server: HttpServer): () => void;
  /** Closes every session, waits for them up to the closing timeout, and stops listening. */
  close(): Promise<void>;
}

/**
 * Creates a session server; `listen` or `attach` opens it.
 *
 * @throws {ProtocolError} `invalid_option`.
 */
export function createServer(options: ServerOptions = {}): Server {
  return new SessionServer(options);
}

/** Room for the header of a frame that carries a message of the largest size. */
const FRAME_HEAD_ROOM = 16 * 1024;

class SessionServer implements Server, ConnectionHost {
  readonly options: ConnectionHost['options'];
  readonly agreements = new AgreementCache();
  readonly #sessions = new Map<string, Endpoint>();
  /** Every connection, also those that are no session yet. */
  readonly #connections = new Set<Endpoint>();
  readonly #attached = new Set<() => void>();
  readonly #adapter;
  readonly #sweep;
  #http: HttpServer | undefined;
  #isClosing = false;

  constructor(options: ServerOptions) {
    this.options = resolveServerOptions(options);
    const { limits, timers } = this.options;
    this.#sweep = createSweep(sweepInterval(timers));
    this.#adapter = createWebSocketAdapter({
      maxPayload: Math.min(
        Math.max(limits.maxMessageSize, limits.maxHandshakeSize) + FRAME_HEAD_ROOM,
        2 ** 31 - 1,
      ),
      maxFragments: Number.isFinite(limits.maxFragments) ? limits.maxFragments : 0,
      closeTimeoutMs: Math.min(timers.closingTimeoutMs, 2 ** 31 - 1),
    });
    if (this.options.authenticate === undefined) {
      this.options.logger.warn(
        {},
        'no authenticate option: only loopback peers are served, each as a principal of its own',
      );
    }
  }

  get sessions(): ReadonlyMap<string, Session> {
    return this.#sessions;
  }

  async listen({ port = 0, host = '127.0.0.1' }: ListenOptions = {}): Promise<Listening> {
    if (this.#http !== undefined) throw new ProtocolError('invalid_argument', 'the server listens already');
    await this.#load();
    const http = createHttpServer((_request, response) => {
      response.writeHead(426, { 'content-type': 'text/plain; charset=utf-8', upgrade: 'websocket' });
      response.end(`This is a Parlance session server. Connect with a WebSocket to ${this.options.path}.\n`);
    });
    await new Promise<void>((resolve, reject) => {
      http.once('error', (cause) =>
        reject(
          new ProtocolError('connection_failed', `cannot listen on ${host}:${port}: ${cause.message}`, {
            cause,
          }),
        ),
      );
      http.listen(port, host, resolve);
    });
    this.#http = http;
    this.#attach(http, true);
    const address = http.address() as AddressInfo;
    const name = address.family === 'IPv6' ? `[${address.address}]` : address.address;
    return {
      port: address.port,
      host: address.address,
      url: `ws://${name}:${address.port}${this.options.path}`,
    };
  }

  attach(server: HttpServer): () => void {
    // Whoever connects before this has finished waits for it: see the endpoint.
    this.#load().catch((error: unknown) =>
      this.options.logger.error({ err: error }, 'loading vocabularies failed'),
    );
    return this.#attach(server, false);
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    for (const detach of this.#attached) detach();
    const http = this.#http;
    this.#http = undefined;
    const closed = http && new Promise<void>((resolve) => http.close(() => resolve()));
    await Promise.all(
      [...this.#connections].map((session) =>
        session.hasWire
          ? session.shutdown(CloseReason.SERVER_SHUTDOWN, 'the server closes')
          : this.onWireLost(session),
      ),
    );
    http?.closeAllConnections();
    await closed;
    this.#sweep.stop();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  // --- as the host of connections

  admit(): Refusal | undefined {
    return this.#isClosing
      ? { code: 'SERVER_BUSY', message: 'the server shuts down', closeCode: 4503 }
      : undefined;
  }

  find(sessionId: string): Endpoint | undefined {
    return this.#sessions.get(sessionId);
  }

  onReady(session: Endpoint): void {
    this.#sessions.set(session.id, session);
    const { onSession, logger } = this.options;
    if (onSession === undefined) return;
    Promise.resolve()
      .then(() => onSession(session))
      .catch((error: unknown) => {
        // A reader that ends because its session has ended is no fault of anybody.
        if (session.state === 'closed') return;
        logger.error({ err: error, session: session.id }, 'onSession failed, the session is closed');
        session.abort(new ProtocolError('internal', 'the server failed', { cause: error }));
      });
  }

  onWireLost(session: Endpoint): void {
    // Nobody can come back to a server that takes no more connections.
    if (this.#isClosing) session.abort(new ProtocolError('draining', 'the server closes'));
  }

  onEnded(session: Endpoint): void {
    this.#connections.delete(session);
    this.#sweep.delete(session);
    if (this.#sessions.get(session.id) === session) this.#sessions.delete(session.id);
  }

  // --- upgrades

  #attach(server: HttpServer, ownsServer: boolean): () => void {
    const onUpgrade = (request: IncomingMessage, socket: Duplex, head: Buffer) =>
      this.#handleUpgrade(request, socket, head, ownsServer);
    server.on('upgrade', onUpgrade);
    const detach = () => {
      server.off('upgrade', onUpgrade);
      this.#attached.delete(detach);
    };
    this.#attached.add(detach);
    return detach;
  }

  #handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer, ownsServer: boolean): void {
    if (pathOf(request) !== this.options.path) {
      // Another path of somebody else's server is somebody else's business.
      if (ownsServer)
        refuseUpgrade(socket, 404, `There is nothing here; sessions are at ${this.options.path}.`);
      return;
    }
    const subprotocol = chooseSubprotocol(request.headers['sec-websocket-protocol']);
    if (subprotocol === undefined) {
      refuseUpgrade(
        socket,
        400,
        `Offer one of the subprotocols ${Subprotocol.BINARY} and ${Subprotocol.JSON}.`,
      );
      return;
    }
    const { origins } = this.options;
    const refusal = checkHost(request, origins) ?? checkOrigin(request, origins) ?? this.admit();
    this.#adapter.upgrade(request, socket, head, subprotocol, (wire) => {
      const session = serveConnection(this, wire, request, subprotocol, refusal);
      if (session.state === 'closed') return;
      this.#connections.add(session);
      this.#sweep.add(session);
    });
  }

  async #load(): Promise<void> {
    const { algorithms, encodings, extensions } = this.options.capabilities;
    const codecs: LoadableCodec[] = [...algorithms];
    if (extensions[Extension.CONTEXT] !== undefined) codecs.push('CONTEXT');
    await Promise.all([loadCodecs(codecs), ...encodings.map((name) => loadEncoding(name))]);
  }
}

function refuseUpgrade(socket: Duplex, status: 400 | 404, message: string): void {
  socket.on('error', () => {});
  const body = `${message}\n`;
  socket.end(
    `HTTP/1.1 ${status} ${status === 400 ? 'Bad Request' : 'Not Found'}\r\nConnection: close\r\n` +
      `Content-Type: text/plain; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}
