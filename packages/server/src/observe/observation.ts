import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { RequestHandler } from '@parlance/protocol';
import type { Listening } from '../api.js';
import { type Listener, type ListenOptions, openListener, shutListener } from '../http/listener.js';
import { Port } from '../http/port.js';
import type { ResolvedServerOptions } from '../options.js';
import { instrument } from './instrument.js';
import type { Metrics } from './metrics.js';
import type { Observed } from './observed.js';
import { createStatusPages, type StatusPages } from './status.js';
import { loadTracing, type Tracing } from './tracing.js';

const DEFAULT_PATH = '/metrics';

/** Health, metrics and traces of a server, on the port of its sessions or on a separate one. */
export class Observation {
  readonly #options: ResolvedServerOptions;
  readonly #observed: Observed;
  readonly #status: StatusPages;
  #metrics: Metrics | undefined;
  #tracing: Tracing | undefined;
  readonly #port = new Port<Listener>('the metrics are already being served', shutListener);

  /** @param isReady returns whether new sessions are admitted. */
  constructor(options: ResolvedServerOptions, observed: Observed, isReady: () => boolean) {
    this.#options = options;
    this.#observed = observed;
    this.#status = createStatusPages({
      isReady,
      metrics: () => this.#metrics,
      site: options,
      logger: options.logger,
    });
  }

  /** `undefined` if metrics are off. */
  get metrics(): Metrics | undefined {
    return this.#metrics;
  }

  /** A handler that is measured and traced. */
  instrument(handler: RequestHandler): RequestHandler {
    return instrument(
      handler,
      () => this.#metrics,
      () => this.#tracing,
    );
  }

  async load(): Promise<void> {
    const { metricsPath, tracing } = this.#options;
    if (metricsPath !== undefined) await this.#loadMetrics();
    if (tracing) this.#tracing = await loadTracing();
  }

  /** Answers a request for a status page on the application's HTTP server. Returns `false` for other requests. */
  respond(request: IncomingMessage, response: ServerResponse): boolean {
    return this.#status.respond(request, response, this.#options.metricsPath);
  }

  /** Like {@link respond}, on the port of the sessions, which has no metrics if they are on a separate port. */
  respondBeside(request: IncomingMessage, response: ServerResponse): boolean {
    const path = this.#port.opened === undefined ? this.#options.metricsPath : undefined;
    return this.#status.respond(request, response, path);
  }

  /** The metrics, whether they are served or not. */
  async metricsOnDemand(): Promise<Metrics> {
    await this.#loadMetrics();
    return this.#metrics as Metrics;
  }

  async listen(options: ListenOptions): Promise<Listening> {
    const { metricsPath: path = DEFAULT_PATH, logger } = this.#options;
    const onRequest: RequestListener = (request, response) => {
      if (this.#status.respond(request, response, path)) return;
      response.writeHead(404, { 'content-type': 'text/plain; charset=utf-8' });
      response.end(`Not found. The metrics are at ${path}.\n`);
    };
    const listener = await this.#port.open(async () => {
      await this.#loadMetrics();
      return await openListener(options, this.#options, onRequest);
    });
    const { port, host, authority } = listener;
    logger.info({ event: 'metrics.listening', host, port, path }, 'serving metrics');
    return { port, host, url: `http://${authority}${path}` };
  }

  close(): Promise<void> {
    return this.#port.close();
  }

  /** The metrics library is loaded only if metrics are wanted. */
  async #loadMetrics(): Promise<void> {
    if (this.#metrics !== undefined) return;
    const { createMetrics } = await import('./metrics.js');
    this.#metrics ??= createMetrics(this.#observed, this.#options.feed);
  }
}
