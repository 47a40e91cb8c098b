import type { RequestListener } from 'node:http';
import { Server as NetServer } from 'node:net';
import {
  type Listener,
  type Listening,
  type ListenOptions,
  openListener,
  requireUpgrade,
  respondWith,
  shutListener,
} from '../transport/http/listener.js';
import { Port } from '../transport/http/port.js';
import type { StatusPages } from '../transport/http/status.js';
import type { Upgrades } from '../transport/http/upgrade.js';
import type { ResolvedServerOptions } from './options.js';

interface ServerPortsOptions {
  readonly options: ResolvedServerOptions;
  readonly upgrades: Upgrades;
  readonly pages: StatusPages;
  /** Loads what the server needs before it accepts connections. */
  readonly load: () => Promise<void>;
}

/** The port of a server's sessions. */
export class ServerPorts {
  readonly #host: ServerPortsOptions;
  readonly #sessions = new Port<Listener>('the server is already listening', shutListener);

  constructor(host: ServerPortsOptions) {
    this.#host = host;
  }

  async listen(listen: ListenOptions): Promise<Listening> {
    const { options, upgrades, pages, load } = this.#host;
    const { path, logger } = options;
    const onRequest: RequestListener = (request, response) => {
      if (pages.respond(request, response, 'sessions')) return;
      if (!respondWith(listen.respond, request, response, logger)) requireUpgrade(response, path);
    };
    // A client that connects before the server is loaded waits for that: see the handshake.
    const { port, host, authority } = await this.#sessions.open(async () => {
      const opened = await openListener(listen, options, onRequest);
      upgrades.attach(opened.http);
      return opened;
    }, load);
    logger.info({ event: 'server.listening', host, port, path }, 'listening');
    return { port, host, url: `ws://${authority}${path}` };
  }

  /**
   * Accepts no new connections; open ones stay, also idle ones, over which requests of open sessions may come. Resolves when the
   * last one is closed.
   */
  async stopListening(): Promise<void> {
    const { http } = this.#sessions.opened ?? {};
    if (http?.listening !== true) return;
    await new Promise<void>((resolve) => NetServer.prototype.close.call(http, () => resolve()));
  }

  /** Closes the connections that no request is under way on. */
  closeIdleConnections(): void {
    this.#sessions.opened?.http.close();
  }

  /** Closes the connections that {@link stopListening} waits for. Those of WebSockets stay. */
  closeConnections(): void {
    this.closeIdleConnections();
    this.#sessions.opened?.http.closeAllConnections();
  }

  /** Resolves when it is closed, also if it was being opened, and will not be open any more. */
  close(): Promise<void> {
    return this.#sessions.close();
  }
}
