import {
  createServer,
  type Server as HttpServer,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from 'node:http';
import type { ListenOptions as Address, AddressInfo } from 'node:net';
import { type Logger, ProtocolError } from '@parlance/protocol';
import { ask, assertOptions, loggable } from '@parlance/protocol/internal';
import { limitedLog } from '../../base/limited-log.js';
import { isTrustedProxy, socketKey } from './addresses.js';
import type { HttpOptions } from './options.js';

export interface ListenOptions {
  /** 0 chooses a free port. @default 0 */
  readonly port?: number | undefined;
  /** @default '127.0.0.1' */
  readonly host?: string | undefined;
  /**
   * Answers requests that are no upgrades, such as for a page; returns `false` for those it does not answer. Health,
   * readiness and metrics are answered before. @default HTTP 426 for every request
   */
  readonly respond?: ((request: IncomingMessage, response: ServerResponse) => boolean) | undefined;
}

/** The address at which a server listens. */
export interface Listening {
  readonly port: number;
  readonly host: string;
  /** The URL that clients on this machine connect to: with `host: '0.0.0.0'`, that of 127.0.0.1. */
  readonly url: string;
}

/** An HTTP server that listens for this server alone. */
export interface Listener {
  readonly http: HttpServer;
  readonly port: number;
  readonly host: string;
  /** Host and port as clients on this machine write them in a URL. */
  readonly authority: string;
}

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'that port is in use; stop its owner, or choose another port (0 chooses a free one)',
  EADDRNOTAVAIL: 'this machine has no such address; use 127.0.0.1 for local clients only, 0.0.0.0 for all',
  EACCES: 'this user may not use that port; ports from 1024 on need no privileges',
  ENOTFOUND: 'the host name is unknown',
};

/** A page that is idle for a minute has its connection, as behind most proxies. */
const KEEP_ALIVE_MS = 65_000;

/** How often Node looks for requests that take too long to arrive. */
const MAX_CHECK_INTERVAL_MS = 5_000;

/**
 * @param server requests, upgrades included, must arrive within its `helloTimeoutMs`; one address may have as many
 * connections as `sessionsPerIp` and `handshakesPerIp` allow together.
 * @throws {ProtocolError} `invalid_option`; `connection_failed` if the port cannot be opened.
 */
export async function openListener(
  options: ListenOptions,
  server: Pick<HttpOptions, 'limits' | 'timers' | 'trustedProxies' | 'logger'>,
  onRequest: RequestListener,
): Promise<Listener> {
  assertOptions(options, { port: 'number', host: 'text', respond: 'function' }, 'listen');
  const { port = 0, host = '127.0.0.1' } = options;
  if (!(Number.isInteger(port) && port >= 0 && port <= 65_535)) {
    throw new ProtocolError(
      'invalid_option',
      `listen.port must be a whole number from 0 to 65535, not ${port}`,
    );
  }
  const requestTimeoutMs = server.timers.helloTimeoutMs;
  const timeout = Number.isFinite(requestTimeoutMs) ? Math.max(1, Math.ceil(requestTimeoutMs)) : 0;
  const http = createServer(
    {
      headersTimeout: timeout,
      requestTimeout: timeout,
      keepAliveTimeout: KEEP_ALIVE_MS,
      connectionsCheckingInterval: Math.min(MAX_CHECK_INTERVAL_MS, timeout || MAX_CHECK_INTERVAL_MS),
    },
    (request, response) => {
      try {
        onRequest(request, response);
      } catch (error) {
        const fields = { event: 'http.failed', err: loggable(error) };
        server.logger.error(fields, 'a request could not be answered; its connection is dropped');
        response.destroy();
      }
    },
  );
  boundConnections(http, server);
  await listenOn(http, { port, host }, server.logger);
  const address = http.address() as AddressInfo;
  // No client asks for "all addresses": on this machine, it asks for loopback.
  const asked = address.address.replace(/^0\.0\.0\.0$/, '127.0.0.1').replace(/^::$/, '::1');
  const name = address.family === 'IPv6' ? `[${asked}]` : asked;
  return { http, port: address.port, host: address.address, authority: `${name}:${address.port}` };
}

/**
 * Later failures, such as accepting a connection without file descriptors, are logged: the port stays open.
 *
 * @param at if `exclusive`, no other worker of `node:cluster` accepts connections there. By default all do, also at port 0.
 * @throws {ProtocolError} `connection_failed` if the port cannot be opened.
 */
export async function listenOn(http: HttpServer, at: Address, logger: Logger): Promise<void> {
  const log = limitedLog(logger);
  let isOpen = false;
  await new Promise<void>((resolve, reject) => {
    http.on('error', (cause: NodeJS.ErrnoException) => {
      if (isOpen) {
        const fields = { event: 'port.failed', err: loggable(cause), address: http.address() };
        log.error(fields, 'a port failed, and stays open');
        return;
      }
      const why = REASONS[cause.code ?? ''] ?? cause.message;
      const message = `cannot listen on ${at.host}:${at.port}: ${why}`;
      reject(new ProtocolError('connection_failed', message, { cause }));
    });
    http.listen(at, resolve);
  });
  isOpen = true;
}

/** Limits connections by socket address: one that sends no request costs memory too, and has no headers to go by. */
function boundConnections(
  http: HttpServer,
  { limits, trustedProxies }: Pick<HttpOptions, 'limits' | 'trustedProxies'>,
): void {
  const max = limits.sessionsPerIp + limits.handshakesPerIp;
  if (max === Infinity) return;
  const counts = new Map<string, number>();
  http.on('connection', (socket) => {
    // A proxy opens the connections of all its clients.
    if (isTrustedProxy(socket, trustedProxies)) return;
    const key = socketKey(socket);
    const count = counts.get(key) ?? 0;
    if (count >= max) {
      socket.destroy();
      return;
    }
    counts.set(key, count + 1);
    socket.once('close', () => {
      const left = (counts.get(key) ?? 1) - 1;
      if (left > 0) counts.set(key, left);
      else counts.delete(key);
    });
  });
}

/** Closes the port and its connections. */
export async function shutListener({ http }: Pick<Listener, 'http'>): Promise<void> {
  if (!http.listening) return;
  const closed = closeListener(http);
  http.closeAllConnections();
  await closed;
}

/** Accepts no new connections; resolves when the last one is closed. */
export function closeListener(http: HttpServer): Promise<void> {
  return new Promise((resolve) => http.close(() => resolve()));
}

/** Whether the application answers a request. One that it fails to answer is dropped. */
export function respondWith(
  respond: ListenOptions['respond'],
  request: IncomingMessage,
  response: ServerResponse,
  logger: Logger,
): boolean {
  if (respond === undefined) return false;
  return ask(
    () => respond(request, response),
    (given) => given === true,
    (error) => {
      const fields = { event: 'http.failed', err: loggable(error) };
      logger.error(fields, 'listen.respond threw; the connection of the request is dropped');
      response.destroy();
      return true;
    },
  );
}

/** The answer to requests that are not for the server's pages. */
export function requireUpgrade(response: ServerResponse, path: string): void {
  response.writeHead(426, { 'content-type': 'text/plain; charset=utf-8', upgrade: 'websocket' });
  response.end(`This is a Parlance session server. Connect with a WebSocket to ${path}.\n`);
}
