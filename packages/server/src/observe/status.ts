import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Logger } from '@parlance/protocol';
import { loggable } from '@parlance/protocol/internal';
import { isPageHost, pathOf, type SiteOptions } from '../admission/admission.js';
import type { Metrics } from './metrics.js';

/** The HTTP pages on which a server reports whether it is alive and ready, and its metrics. */
export interface StatusPages {
  /**
   * Answers a request for one of the pages. Returns `false` for other requests.
   *
   * @param metricsPath the path of the metrics; `undefined` without metrics.
   */
  respond(request: IncomingMessage, response: ServerResponse, metricsPath: string | undefined): boolean;
}

export interface StatusOptions {
  /** Returns whether new sessions are admitted. */
  readonly isReady: () => boolean;
  readonly metrics: () => Metrics | undefined;
  /** The host names under which the pages are shown. */
  readonly site: SiteOptions;
  readonly logger: Logger;
}

const TEXT = 'text/plain; charset=utf-8';

export function createStatusPages({ isReady, metrics, site, logger }: StatusOptions): StatusPages {
  const warn = (error: unknown): void => {
    logger.error({ event: 'metrics.failed', err: loggable(error) }, 'the metrics could not be collected');
  };
  const send = (response: ServerResponse, status: number, type: string, body: string): void => {
    response.writeHead(status, { 'content-type': type, 'cache-control': 'no-store' });
    response.end(body);
  };

  return {
    respond(request, response, metricsPath) {
      const path = pathOf(request);
      if (path !== '/healthz' && path !== '/readyz' && (path === undefined || path !== metricsPath))
        return false;
      if (!isPageHost(request, site)) {
        send(response, 403, TEXT, "this server listens on loopback; add the name to the server's hosts\n");
      } else if (request.method !== 'GET' && request.method !== 'HEAD') {
        response.setHeader('allow', 'GET, HEAD');
        send(response, 405, TEXT, 'use GET\n');
      } else if (path === '/healthz') {
        send(response, 200, TEXT, 'alive\n');
      } else if (path === '/readyz') {
        if (isReady()) send(response, 200, TEXT, 'ready\n');
        else send(response, 503, TEXT, 'not ready: the server admits no new sessions\n');
      } else {
        const source = metrics();
        if (source === undefined) send(response, 503, TEXT, 'not ready\n');
        else
          source
            .expose()
            .then(
              (text) => send(response, 200, source.contentType, text),
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
      return true;
    },
  };
}
