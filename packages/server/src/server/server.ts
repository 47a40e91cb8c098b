import type { Server as HttpServer, IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { warnIfLocal } from '../session/admission/authentication.js';
import type { ServerSession } from '../session/served-session.js';
import type { Listening, ListenOptions } from '../transport/http/listener.js';
import { closedError } from '../transport/http/port.js';
import { StatusPages } from '../transport/http/status.js';
import { Upgrades } from '../transport/http/upgrade.js';
import { Drain } from './drain.js';
import type { CloseServerOptions, DrainOptions, DrainResult } from './drain-options.js';
import { resolveDrainOptions } from './drain-options.js';
import type { Feature } from './features/feature.js';
import { InstalledFeatures, type ServerOfFeatures } from './features/installed-features.js';
import { NODE, nodeInMemory, SESSIONS } from './features/own-feature.js';
import type { ResolvedServerOptions } from './options.js';
import { choresOf, ServerLoading } from './server-loading.js';
import { ServerPorts } from './server-ports.js';
import { closing, Sessions } from './sessions.js';

/** Opens and closes what a server has: ports, sessions, and features for everything else. */
export class SessionServer {
  readonly options: ResolvedServerOptions;
  readonly features: InstalledFeatures;
  readonly #sessions: Sessions;
  readonly #upgrades: Upgrades;
  readonly #pages: StatusPages;
  readonly #ports: ServerPorts;
  readonly #loading: ServerLoading;
  #drained: Promise<DrainResult> | undefined;
  #closed: Promise<void> | undefined;

  /** @throws {ProtocolError} `invalid_option`. */
  constructor(options: ResolvedServerOptions, chosen: readonly Feature[]) {
    const { logger } = options;
    this.options = options;
    const sessions = new Sessions(
      options,
      (host) => {
        const given = [[SESSIONS, host] as const, [NODE, nodeInMemory()] as const];
        return new InstalledFeatures(chosen, this.#featureHost(host), logger, given);
      },
      () => this.#loading.wait(),
    );
    const { features } = sessions;
    this.#sessions = sessions;
    this.features = features;
    const load = () => Promise.all([sessions.load(), features.start()]);
    const { quotas, nonces, memory, vocabularies } = sessions;
    this.#loading = new ServerLoading(load, choresOf(quotas, nonces, memory, features, vocabularies), logger);
    this.#pages = new StatusPages({
      unready: () => this.#loading.unready() ?? features.unready() ?? sessions.admitAny()?.message,
      httpAt: (path, port) => features.httpAt(path, port),
      site: options,
      logger,
    });
    this.#upgrades = new Upgrades({
      options,
      door: sessions.door,
      memory: sessions.memory,
      targetAt: (path) => features.upgradeAt(path),
      onWire: (...connection) => sessions.begin(...connection),
    });
    this.#ports = new ServerPorts({
      options,
      upgrades: this.#upgrades,
      pages: this.#pages,
      load: () => this.#loading.load().then(() => this.assertOpen()),
    });
    warnIfLocal(options);
  }

  #featureHost(sessions: Sessions): ServerOfFeatures {
    return {
      options: this.options,
      path: this.options.path,
      enter: (request) => sessions.door.enterOnce(request),
      logger: this.options.logger,
      begin: (transport, arrival, subprotocol) =>
        sessions.begin(transport, arrival, subprotocol, arrival.refusal),
      identify: (request, stated) => sessions.visitors.identify(request, stated),
      session: (visitor, options) => sessions.visitors.session(visitor, options),
      memory: sessions.memory,
      sessions: sessions.established,
      connections: sessions.connections,
      greetings: sessions.greetings,
      unserved: sessions.unserved,
      get drainProgress() {
        return sessions.drain?.progress;
      },
      drain: (options) => this.drain(options),
      finishDrain: () => sessions.drain?.finish(),
      find: (sessionId) => sessions.find(sessionId),
      settled: () => sessions.drain?.handleEnded(),
      respond: (request, response, port) => this.#pages.respond(request, response, port),
    };
  }

  get sessions(): ReadonlyMap<string, ServerSession> {
    return this.#sessions.served;
  }

  async listen(options: ListenOptions = {}): Promise<Listening> {
    this.assertOpen();
    return await this.#ports.listen(options);
  }

  attach(server: HttpServer): () => void {
    this.assertOpen();
    const detach = this.#upgrades.attach(server);
    void this.#loading.wait();
    return detach;
  }

  respond(request: IncomingMessage, response: ServerResponse): boolean {
    return this.#pages.respond(request, response, 'application');
  }

  drain(options: DrainOptions = {}): Promise<DrainResult> {
    this.#drained ??= this.#drain(options);
    return this.#drained;
  }

  /** @throws {ProtocolError} `invalid_option`. */
  #drain(options: DrainOptions): Promise<DrainResult> {
    const { timeoutMs, returnWithinMs, releasePort } = resolveDrainOptions(options);
    const { logger } = this.options;
    const { established } = this.#sessions;
    const fields = { event: 'server.draining', sessions: established.size, timeoutMs, returnWithinMs };
    logger.info(fields, 'draining');
    this.#sessions.returnWithinMs = returnWithinMs;
    const drain = new Drain(
      established,
      this.features.drains,
      returnWithinMs,
      Date.now() + timeoutMs,
      logger,
    );
    this.#sessions.drain = drain;
    const drained = drain.run(timeoutMs);
    if (releasePort) this.#stopListening();
    return drained.then((result) => {
      this.#stopListening();
      this.#ports.closeIdleConnections();
      logger.info({ event: 'server.drained', ...result }, 'drained');
      return result;
    });
  }

  close(options: CloseServerOptions = {}): Promise<void> {
    const isFinal = this.#sessions.beginClosing(options);
    this.#closed ??= this.#close(isFinal);
    return this.#closed;
  }

  async #close(isFinal: boolean): Promise<void> {
    const closed = this.#stopListening();
    if (!isFinal) {
      // A drain under way ends now, and counts what it interrupts. One whose feature or engine hangs keeps nothing open.
      this.#sessions.drain?.finish();
      const ms = Math.min(this.options.timers.closingTimeoutMs, 2 ** 31 - 1);
      await Promise.race([this.#drained, pause(ms, undefined, { ref: false })]);
    }
    await this.#sessions.closeAll(isFinal);
    this.#upgrades.closeSockets();
    this.#ports.closeConnections();
    await this.features.close(closing());
    await closed;
    // Ports that are being opened and modules that are being loaded are given up.
    await this.#ports.close();
    await this.#loading.stop();
    this.#sessions.stop();
    this.options.logger.info({ event: 'server.closed' }, 'closed');
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** @throws {ProtocolError} `invalid_argument` if the server was closed. */
  protected assertOpen(): void {
    if (this.#sessions.isClosing) throw closedError();
  }

  /** Accepts no new connections; open ones stay. */
  #stopListening(): Promise<void> {
    this.#upgrades.detachAll();
    return this.#ports.stopListening();
  }
}
