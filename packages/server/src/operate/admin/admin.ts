import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { isProtocolError, type Logger } from '@parlance/protocol';
import { guardLater, loggable } from '@parlance/protocol/internal';
import type { FeedEvent } from '../../base/event-feed.js';
import { limitedLog } from '../../base/limited-log.js';
import type { DrainOptions } from '../../server/drain-options.js';
import { NODE, type OwnHost } from '../../server/features/own-feature.js';
import type { ServerEndpoint } from '../../session/endpoint.js';
import { type Listener, type Listening, openListener, shutListener } from '../../transport/http/listener.js';
import { bearerToken, checkHost, checkOrigin, pathOf } from '../../transport/http/site.js';
import type { Metrics } from '../observe/metrics.js';
import { AdminEvents } from './events.js';
import { History, SAMPLE_MS } from './history.js';
import type { Journals } from './journal.js';
import type { ResolvedAdminOptions } from './options.js';
import { pointOf } from './points.js';
import type { AdminState, SessionTimeline } from './report.js';
import { listSessions, rowOf } from './sessions.js';
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
  readonly #journals: Journals;
  readonly #events: AdminEvents;
  readonly #history = new History();
  #sampling: NodeJS.Timeout | undefined;
  /** The last session that has ended: the line that says so comes when it is forgotten. */
  #ended: ServerEndpoint | undefined;
  readonly #startedAt = Date.now();
  readonly #log: Logger;
  #listener: Listener | undefined;

  private constructor(
    options: ResolvedAdminOptions,
    server: OwnHost,
    metrics: Metrics | undefined,
    pages: Pages,
    journals: Journals,
  ) {
    this.#journals = journals;
    this.#options = options;
    this.#server = server;
    this.#metrics = metrics;
    this.#pages = pages;
    this.#token = digest(options.token);
    this.#events = new AdminEvents(server.options.feed, (id, event) => this.#about(id, event));
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
    journals: Journals,
  ): Promise<Admin> {
    const opened = new Admin(options, server, metrics, pages, journals);
    try {
      await opened.#listen();
      return opened;
    } catch (error) {
      await opened.close();
      throw error;
    }
  }

  async #listen(): Promise<void> {
    await this.#sample();
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

  handleEnded(session: ServerEndpoint): void {
    this.#ended = session;
  }

  #about(id: string, event: string): FeedEvent['fields'] | undefined {
    const session = this.#server.find(id) ?? (this.#ended?.id === id ? this.#ended : undefined);
    if (session === undefined) return undefined;
    const { principal } = session;
    const last = this.#journals.peek(session)?.marks.at(-1);
    const isBack = event === 'session.resumed' && last?.what === 'back';
    return { ...(principal !== undefined && { principal }), ...(isBack && { awayMs: last.awayMs }) };
  }

  async #sample(): Promise<void> {
    this.#history.add(pointOf(await this.#state()));
    this.#sampling = setTimeout(() => guardLater({ crash: () => {} }, this.#sample()), SAMPLE_MS).unref();
  }

  async close(): Promise<void> {
    clearTimeout(this.#sampling);
    this.#events.close();
    const listener = this.#listener;
    this.#listener = undefined;
    if (listener !== undefined) await shutListener(listener);
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
    if (path === '/admin/history') {
      const rangeMs = Number(query.get('rangeMs') ?? Infinity);
      if (!(rangeMs >= 0)) return fail(response, 400, 'bad_request', 'rangeMs: expected milliseconds');
      return send(response, 200, { points: this.#history.from(Date.now() - rangeMs) });
    }
    const [, sessionId] = /^\/admin\/sessions\/([^/]{1,200})$/.exec(path) ?? [];
    if (sessionId !== undefined) return this.#timeline(response, decodeURIComponent(sessionId));
    if (path !== '/admin/events') return fail(response, 404, 'not_found', 'no such page');
    if (this.#events.isFull) return fail(response, 429, 'rate_limited', 'too many readers of events');
    this.#events.serve(response);
  }

  async #state(): Promise<AdminState> {
    const node = this.#server.use(NODE);
    return stateOf({
      node: node?.engine && node.incarnation,
      features: this.#server.order(),
      engine: node?.engine === undefined ? null : node.isStalled ? 'stalled' : 'answers',
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

  #timeline(response: ServerResponse, sessionId: string): void {
    const session = this.#server.find(sessionId);
    if (session === undefined) return fail(response, 404, 'not_found', 'the server has no such session');
    const { marks = [], dropped = 0 } = this.#journals.peek(session) ?? {};
    const row = rowOf(session, this.#server.options.timers, this.#server.labels());
    send(response, 200, { session: row, now: Date.now(), marks, dropped } satisfies SessionTimeline);
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
