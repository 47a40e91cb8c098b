import { isProtocolError, type Logger, type RequestHandler } from '@parlance/protocol';
import { loggable, systemClock } from '@parlance/protocol/internal';
import { type Feature, Service } from '../../server/features/feature.js';
import type { OwnHooks, OwnHost } from '../../server/features/own-feature.js';
import type { ServerEndpoint } from '../../session/endpoint.js';
import type { Listening } from '../../transport/http/listener.js';
import { Port } from '../../transport/http/port.js';
import { METRICS, type ServerMetrics } from '../observe/feature.js';
import { Admin, type Pages } from './admin.js';
import { Journal, type Journals } from './journal.js';
import { type AdminOptions, type ResolvedAdminOptions, resolveAdminOptions } from './options.js';

/** The address of the port, once it is open. */
export const ADMIN = new Service<{ readonly listening: Listening | undefined }>('admin');

/**
 * A port for the operator: `GET /admin/state`, `/admin/sessions`, `/admin/history` and `/admin/events`, a page that shows them, and, with
 * `mode: 'operate'`, `POST /admin/sessions/ID/close` and `/admin/drain`. Each request presents the token.
 *
 * @throws {ProtocolError} `invalid_option`; its message never contains the token.
 */
export function admin(options: AdminOptions): Feature {
  const resolved = resolveAdminOptions(options);
  return { name: 'admin', after: ['metrics'], install: (host: OwnHost) => new AdminFeature(host, resolved) };
}

class AdminFeature implements OwnHooks {
  readonly #host: OwnHost;
  readonly #options: ResolvedAdminOptions;
  readonly #metrics: ServerMetrics | undefined;
  readonly #journals: Journals;
  readonly #port = new Port<Admin>('the admin port is already open', (opened) => opened.close());

  constructor(host: OwnHost, options: ResolvedAdminOptions) {
    this.#host = host;
    this.#options = options;
    this.#metrics = host.use(METRICS);
    this.#journals = host.slot(() => new Journal());
    host.provide(ADMIN, this);
  }

  get listening(): Listening | undefined {
    return this.#port.opened?.listening;
  }

  async start(): Promise<void> {
    await this.#port.open(async () => {
      const metrics = await this.#metrics?.collect();
      const pages = await pagesOf(this.#host.options.logger);
      return await Admin.open(this.#options, this.#host, metrics, pages, this.#journals);
    });
  }

  ready(session: ServerEndpoint): void {
    this.#journals.of(session).add({ what: 'opened' });
  }

  resumed(session: ServerEndpoint): void {
    const awayMs = session.hasWire ? 0 : Math.round(systemClock.now() - session.lostAt);
    this.#journals.of(session).add({ what: 'back', awayMs });
  }

  ended(session: ServerEndpoint): void {
    this.#port.opened?.handleEnded(session);
  }

  wrap(next: RequestHandler): RequestHandler {
    return (request, context) => {
      const session = this.#host.find(context.session.id);
      if (session !== undefined) this.#journals.of(session).add({ what: 'request' });
      return next(request, context);
    };
  }

  close(): Promise<void> {
    return this.#port.close();
  }
}

/** Without a build of the pages, the port answers programs only. */
async function pagesOf(logger: Logger): Promise<Pages> {
  const { createAdminPages } = await import('../ui.js');
  try {
    return createAdminPages();
  } catch (error) {
    if (!isProtocolError(error)) throw error;
    logger.warn({ event: 'ui.missing', err: loggable(error) }, 'the dashboard is not served');
    return () => false;
  }
}
