import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { isProtocolError, type Logger } from '@parlance/protocol';
import { guardLater, loggable } from '@parlance/protocol/internal';
import { limitedLog } from '../../base/limited-log.js';
import type { DrainOptions } from '../../server/drain-options.js';
import { NODE, type OwnHost } from '../../server/features/own-feature.js';
import { closeListener, type Listener, type Listening, openListener } from '../../transport/http/listener.js';
import { bearerToken, checkHost, checkOrigin, pathOf } from '../../transport/http/site.js';
import type { Metrics } from '../observe/metrics.js';
import { AdminEvents } from './events.js';
import type { AdminState } from './figures.js';
import type { ResolvedAdminOptions } from './options.js';
import { listSessions } from './sessions.js';
import { stateOf } from './state.js';

export type Pages = (request: IncomingMessage, response: ServerResponse) => boolean;

/** With a code, a client takes it as the last word: it does not come back, as it does from a server that drains. */
const CLOSED_BY_OPERATOR = { code: 'closed_by_operator', reason: 'closed by the operator of the server' };
/** Bytes of the body of a request. */
const MAX_BODY = 4096;

/**
 * The port of a server's operator: its state, its sessions and its events as JSON, a page that shows them, and, if the
 * options say so, closing and draining. Each request presents the token, except for the files of the page, which know
 * nothing. Pages of other origins and names get nothing.
 */
export class Admin {
  readonly #options: ResolvedAdminOptions;
  readonly #server: OwnHost;
  readonly #metrics: Metrics | undefined;
  readonly #pages: Pages;
  readonly #token: Buffer;
  readonly #events: AdminEvents;
  readonly #startedAt = Date.now();
  readonly #log: Logger;
  #listener: Listener | undefined;

  private constructor(
    options: ResolvedAdminOptions,
    server: OwnHost,
    metrics: Metrics | undefined,
    pages: Pages,
  ) {
    this.#options = options;
    this.#server = server;
    this.#metrics = metrics;
    this.#pages = pages;
    this.#token = digest(options.token);
    this.#events = new AdminEvents(server.options.feed);
    this.#log = limitedLog(server.options.logger);
  }

  /**
   * @param pages answers requests for the files of the page; returns `false` for others.
   * @throws {ProtocolError} `connection_failed` if the port cannot be opened.
   */
  static async open(
    options: ResolvedAdminOptions,
    server: OwnHost,
    metrics: Metrics | undefined,
    pages: Pages,
  ): Promise<Admin> {
    const opened = new Admin(options, server, metrics, pages);
    try {
      await opened.#listen();
      return opened;
    } catch (error) {
      await opened.close();
      throw error;
    }
  }

  async #listen(): Promise<void> {
    const { port, host, mode } = this.#options;
    const { options } = this.#server;
    this.#listener = await openListener({ port, host }, options, (request, response) => {
      this.#respond(request, response);
    });
    options.logger.info(
      { event: 'admin.listening', host: this.#listener.host, port: this.#listener.port, mode },
      'admin port',
    );
  }

  get listening(): Listening | undefined {
    const { port, host, authority } = this.#listener ?? {};
    if (port === undefined || host === undefined) return undefined;
    return { port, host, url: `http://${authority}/` };
  }

  async close(): Promise<void> {
    this.#events.close();
    const http = this.#listener?.http;
    this.#listener = undefined;
    if (http === undefined) return;
    const closed = closeListener(http);
    http.closeAllConnections();
    await closed;
  }

  #respond(request: IncomingMessage, response: ServerResponse): void {
    const { hosts, trustedProxies } = this.#server.options;
    const site = { origins: [], hosts, trustedProxies };
    const refusal = checkHost(request, site) ?? checkOrigin(request, site);
    if (refusal !== undefined) return fail(response, 403, 'forbidden', refusal.message);
    const path = pathOf(request) ?? '';
    if (!path.startsWith('/admin/')) {
      if (!this.#pages(request, response)) fail(response, 404, 'not_found', 'the dashboard is at /');
      return;
    }
    if (!this.#isAuthentic(request)) {
      response.setHeader('www-authenticate', 'Bearer');
      // Without the path, which is a stranger's text.
      const fields = { event: 'admin.refused', ip: request.socket.remoteAddress };
      this.#log.warn(fields, 'a request to the admin port has no token, or a wrong one');
      return fail(response, 401, 'unauthenticated', 'present the admin token as Authorization: Bearer');
    }
    const answered = this.#answer(request, response, path).catch((error: unknown) => {
      this.#log.error({ event: 'admin.failed', path, err: loggable(error) }, 'an admin request failed');
      if (response.headersSent) response.destroy();
      else if (isProtocolError(error)) fail(response, 400, error.code, error.message);
      else fail(response, 500, 'internal', 'the server failed; its log says why');
    });
    guardLater({ crash: () => response.destroy() }, answered);
  }

  #isAuthentic({ headers }: IncomingMessage): boolean {
    const token = bearerToken(headers);
    return token !== undefined && timingSafeEqual(digest(token), this.#token);
  }

  async #answer(request: IncomingMessage, response: ServerResponse, path: string): Promise<void> {
    if (request.method === 'GET') return await this.#read(request, response, path);
    if (request.method !== 'POST') return fail(response, 405, 'method', 'use GET, or POST to operate');
    if (this.#options.mode !== 'operate')
      return fail(
        response,
        403,
        'read_only',
        "this admin port only reads; its server can allow more with mode 'operate'",
      );
    const body = await bodyOf(request);
    if (body === undefined) return fail(response, 400, 'bad_request', 'expected a JSON object');
    const [, sessionId] = /^\/admin\/sessions\/([^/]{1,200})\/close$/.exec(path) ?? [];
    if (sessionId !== undefined) return this.#closeSession(response, decodeURIComponent(sessionId));
    if (path === '/admin/drain/finish') return this.#finishDrain(response);
    if (path !== '/admin/drain') return fail(response, 404, 'not_found', 'no such action');
    const drained = this.#server.drain(body);
    drained.catch((error: unknown) => {
      this.#log.error({ event: 'admin.failed', path, err: loggable(error) }, 'the drain failed');
    });
    send(response, 202, { draining: this.#server.drainProgress ?? null });
  }

  async #read(request: IncomingMessage, response: ServerResponse, path: string): Promise<void> {
    const query = new URL(request.url ?? '/', 'http://host').searchParams;
    if (path === '/admin/state') return send(response, 200, await this.#state());
    if (path === '/admin/sessions') {
      const { options } = this.#server;
      const list = listSessions(this.#server.sessions.values(), query, options.timers, this.#server.labels());
      if (list === undefined)
        return fail(response, 400, 'bad_request', 'unknown sort or show, or a wrong limit');
      return send(response, 200, list);
    }
    if (path !== '/admin/events') return fail(response, 404, 'not_found', 'no such page');
    if (this.#events.isFull) return fail(response, 429, 'rate_limited', 'too many readers of events');
    this.#events.serve(response);
  }

  async #state(): Promise<AdminState> {
    const node = this.#server.use(NODE);
    return stateOf({
      node: node?.engine && node.incarnation,
      mode: this.#options.mode,
      startedAt: this.#startedAt,
      draining: this.#server.drainProgress,
      shown: this.#server
        .figures()
        .filter(({ isShown }) => isShown)
        .map(({ name }) => name),
      samples: (await this.#metrics?.samples()) ?? new Map(),
    });
  }

  #finishDrain(response: ServerResponse): void {
    if (this.#server.drainProgress === undefined)
      return fail(response, 409, 'not_draining', 'the server does not drain');
    this.#server.options.logger.info(
      { event: 'admin.drain_finished' },
      'an operator moves the deadline of the drain to now',
    );
    this.#server.finishDrain();
    send(response, 202, { draining: this.#server.drainProgress ?? null });
  }

  #closeSession(response: ServerResponse, sessionId: string): void {
    const session = this.#server.find(sessionId);
    if (session === undefined) return fail(response, 404, 'not_found', 'the server has no such session');
    this.#server.options.logger.info(
      { event: 'admin.closed', session: sessionId },
      'an operator closes a session',
    );
    // A client that is away would learn of it only when it comes back.
    guardLater(session, session.session.close(CLOSED_BY_OPERATOR));
    send(response, 202, { closing: sessionId });
  }
}

/** Digests have equal length, as a constant-time comparison requires. */
function digest(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, {
    'content-type': 'application/json; charset=utf-8',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  });
  response.end(JSON.stringify(body));
}

function fail(response: ServerResponse, status: number, code: string, message: string): void {
  send(response, status, { error: { code, message } });
}

/** A JSON object, or nothing for an empty body; `undefined` for anything else. */
async function bodyOf(request: IncomingMessage): Promise<DrainOptions | undefined> {
  let size = 0;
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MAX_BODY) return undefined;
    chunks.push(chunk);
  }
  if (size === 0) return {};
  try {
    const value: unknown = JSON.parse(Buffer.concat(chunks).toString('utf8'));
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
