import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Logger } from '@parlance/protocol';
import { loggable } from '@parlance/protocol/internal';
import { isPageHost, pathOf, type SiteOptions } from './site.js';

/**
 * The port at which a page is asked for: on a server of the application, on the port of sessions, or on one that a
 * feature has opened.
 */
export type PagePort = 'application' | 'sessions' | 'separate';

/** A page of the server. */
export interface Page {
  readonly type: string;
  /** `undefined` while it is loaded. The promise rejects with what prevents it. */
  readonly read: (() => Promise<string>) | undefined;
}

/** Answers requests of any method at a path. An error that it throws, or rejects with, is answered with HTTP 500 and logged. */
export type HttpHandler = (request: IncomingMessage, response: ServerResponse) => void | Promise<void>;

export interface StatusOptions {
  /** Returns why no new sessions are admitted; `undefined` if they are. */
  readonly unready: () => string | undefined;
  /** Of features. Handlers never throw. */
  readonly httpAt: (path: string, port: PagePort) => Page | HttpHandler | undefined;
  /** The host names under which the pages are shown. */
  readonly site: SiteOptions;
  readonly logger: Logger;
}

const TEXT = 'text/plain; charset=utf-8';

/** The HTTP pages of a server: whether it is alive and ready, and those of its features. */
export class StatusPages {
  readonly #options: StatusOptions;

  constructor(options: StatusOptions) {
    this.#options = options;
  }

  /** Answers a request for one of the pages. Returns `false` for other requests. */
  respond(request: IncomingMessage, response: ServerResponse, port: PagePort): boolean {
    const path = pathOf(request) ?? '';
    // Express takes the path off `url` at which an app has mounted a handler.
    const { originalUrl: url } = request as { readonly originalUrl?: string };
    const at = (each: string) => this.#options.httpAt(each, port);
    const isOwn = path === '/healthz' || path === '/readyz';
    const page = isOwn ? undefined : (at(path) ?? at(pathOf({ url }) ?? ''));
    if (!isOwn && page === undefined) return false;
    if (!isPageHost(request, this.#options.site)) {
      send(response, 403, TEXT, "this server listens on loopback; add the name to the server's hosts\n");
    } else if (typeof page === 'function') {
      void page(request, response);
    } else if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.setHeader('allow', 'GET, HEAD');
      send(response, 405, TEXT, 'use GET\n');
    } else if (page !== undefined) {
      this.#show(page, response);
    } else if (path === '/healthz') {
      send(response, 200, TEXT, 'alive\n');
    } else {
      const reason = this.#options.unready();
      if (reason === undefined) send(response, 200, TEXT, 'ready\n');
      else send(response, 503, TEXT, `not ready: ${reason}\n`);
    }
    return true;
  }

  #show({ type, read }: Page, response: ServerResponse): void {
    if (read === undefined) return send(response, 503, TEXT, 'not ready\n');
    const warn = (error: unknown): void => {
      const fields = { event: 'metrics.failed', err: loggable(error) };
      this.#options.logger.error(fields, 'the metrics could not be collected');
    };
    read()
      .then(
        (text) => send(response, 200, type, text),
        (error: unknown) => {
          warn(error);
          send(response, 500, TEXT, 'the metrics could not be collected\n');
        },
      )
      .catch((error: unknown) => {
        warn(error);
        response.destroy();
      });
  }
}

function send(response: ServerResponse, status: number, type: string, body: string): void {
  response.writeHead(status, { 'content-type': type, 'cache-control': 'no-store' });
  response.end(body);
}
