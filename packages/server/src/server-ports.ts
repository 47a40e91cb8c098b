import type { RequestListener } from 'node:http';
import type { Administered } from './admin/admin.js';
import { type OpenAdmin, openAdmin } from './admin/open.js';
import type { Listening } from './api.js';
import {
  closeListener,
  type Listener,
  type ListenOptions,
  openListener,
  requireUpgrade,
  respondWith,
  shutListener,
} from './http/listener.js';
import { Port } from './http/port.js';
import type { Upgrades } from './http/upgrade.js';
import type { Observation } from './observe/observation.js';
import type { ResolvedServerOptions } from './options.js';

interface ServerPortsOptions {
  readonly options: ResolvedServerOptions;
  readonly upgrades: Upgrades;
  readonly observation: Observation;
  /** Loads what the server needs before it accepts connections. */
  readonly load: () => Promise<void>;
}

/** The ports that a server opens itself: for sessions, for its operator, and for its metrics. */
export class ServerPorts {
  readonly #host: ServerPortsOptions;
  readonly #sessions = new Port<Listener>('the server is already listening', shutListener);
  readonly #admin = new Port<OpenAdmin | undefined>('the admin port is already open', async (admin) =>
    admin?.close(),
  );

  constructor(host: ServerPortsOptions) {
    this.#host = host;
  }

  async listen(listen: ListenOptions): Promise<Listening> {
    const { options, upgrades, observation, load } = this.#host;
    const { path, logger } = options;
    const onRequest: RequestListener = (request, response) => {
      if (observation.respondBeside(request, response)) return;
      if (!respondWith(listen.respond, request, response, logger)) requireUpgrade(response, path);
    };
    // A client that connects before the server is loaded waits for that.
    const { port, host, authority } = await this.#sessions.open(async () => {
      const opened = await openListener(listen, options, onRequest);
      upgrades.attach(opened.http);
      return opened;
    }, load);
    logger.info({ event: 'server.listening', host, port, path }, 'listening');
    return { port, host, url: `ws://${authority}${path}` };
  }

  /** Opens the operator's port if the options say so, and if it is not open. */
  async openAdmin(server: Administered): Promise<void> {
    if (this.#admin.opened !== undefined) return;
    await this.#admin.open(() => openAdmin(server, () => this.#host.observation.metricsOnDemand()));
  }

  get admin(): Listening | undefined {
    return this.#admin.opened?.listening;
  }

  /** Accepts no new connections; open ones stay. Resolves when the last one is closed. */
  async stopListening(): Promise<void> {
    const { http } = this.#sessions.opened ?? {};
    if (http?.listening === true) await closeListener(http);
  }

  /** Closes the connections that {@link stopListening} waits for. Those of WebSockets stay. */
  closeConnections(): void {
    this.#sessions.opened?.http.closeAllConnections();
  }

  /** Resolves when all are closed, also those that were being opened, and none will be open any more. */
  async close(): Promise<void> {
    await Promise.all([this.#sessions.close(), this.#host.observation.close(), this.#admin.close()]);
  }
}
