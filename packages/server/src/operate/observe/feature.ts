import type { RequestListener } from 'node:http';
import { ProtocolError, type RequestHandler } from '@parlance/protocol';
import { assertOptions, systemClock } from '@parlance/protocol/internal';
import { type Feature, Service } from '../../server/features/feature.js';
import { METER, type OwnHooks, type OwnHost } from '../../server/features/own-feature.js';
import type { ServerEndpoint } from '../../session/endpoint.js';
import {
  type Listener,
  type Listening,
  type ListenOptions,
  openListener,
  shutListener,
} from '../../transport/http/listener.js';
import { Port } from '../../transport/http/port.js';
import type { Page, PagePort } from '../../transport/http/status.js';
import { instrument } from './instrument.js';
import type { Metrics } from './metrics.js';
import { Totals } from './totals.js';

export interface MetricsOptions {
  /** The path of the metrics, also on the port of the sessions. @default '/metrics' */
  readonly path?: string | undefined;
}

export const METRICS = new Service<ServerMetrics>('metrics');

const DEFAULT_PATH = '/metrics';

/**
 * Metrics in Prometheus format, to every client that can connect; see `listenMetrics` for a separate port.
 *
 * @throws {ProtocolError} `invalid_option`.
 */
export function metrics(options: MetricsOptions = {}): Feature {
  assertOptions(options, { path: 'text' }, 'metrics');
  const { path = DEFAULT_PATH } = options;
  if (!path.startsWith('/'))
    throw new ProtocolError('invalid_option', `metrics.path must begin with "/", not "${path}"`);
  return { name: 'metrics', install: (host: OwnHost) => new ServerMetrics(host, path) };
}

/** Metrics that are collected only once they are asked for, by `listenMetrics` or for the operator. On by default. */
export const metricsOnDemand = (): Feature => ({
  name: 'metrics',
  install: (host: OwnHost) => new ServerMetrics(host, undefined),
});

export class ServerMetrics implements OwnHooks {
  readonly #host: OwnHost;
  readonly #path: string | undefined;
  readonly #totals = new Totals();
  readonly #port = new Port<Listener>('the metrics are already being served', shutListener);
  #metrics: Metrics | undefined;

  /** @param path `undefined` if they are not served on the port of the sessions. */
  constructor(host: OwnHost, path: string | undefined) {
    this.#host = host;
    this.#path = path;
    host.provide(METER, this);
    host.provide(METRICS, this);
  }

  get observer(): Metrics | undefined {
    return this.#metrics;
  }

  wrap(next: RequestHandler): RequestHandler {
    return instrument(
      next,
      () => this.#metrics,
      () => undefined,
    );
  }

  ready(session: ServerEndpoint): void {
    this.#metrics?.handleAccepted((systemClock.now() - session.helloAt) / 1000);
  }

  resumed(session: ServerEndpoint): void {
    const gapMs = session.hasWire ? 0 : systemClock.now() - session.lostAt;
    this.#metrics?.handleResumed(gapMs / 1000);
  }

  ended(session: ServerEndpoint, error: ProtocolError | undefined): void {
    this.#totals.add(session);
    if (this.#host.find(session.id) === session) this.#metrics?.handleEnded(session.endOf(error));
  }

  http(path: string, port: PagePort): Page | undefined {
    const isSeparate = this.#port.opened !== undefined;
    const own = port === 'separate' ? (this.#path ?? DEFAULT_PATH) : this.#path;
    if (path !== own || (isSeparate && port === 'sessions')) return undefined;
    const { contentType: type = '', expose } = this.#metrics ?? {};
    return { type, read: expose };
  }

  async start(): Promise<void> {
    if (this.#path !== undefined) await this.collect();
  }

  /** The metrics, whether they are served or not. Their library is loaded only if they are wanted. */
  async collect(): Promise<Metrics> {
    if (this.#metrics !== undefined) return this.#metrics;
    const { createMetrics } = await import('./metrics.js');
    this.#metrics ??= createMetrics(this.#host, () => this.#totals.with(this.#host.connections));
    return this.#metrics;
  }

  async listen(options: ListenOptions): Promise<Listening> {
    const path = this.#path ?? DEFAULT_PATH;
    const { options: server } = this.#host;
    const onRequest: RequestListener = (request, response) => {
      if (this.#host.respond(request, response, 'separate')) return;
      response.writeHead(404, { 'content-type': 'text/plain; charset=utf-8' });
      response.end(`Not found. The metrics are at ${path}.\n`);
    };
    const listener = await this.#port.open(async () => {
      await this.collect();
      return await openListener(options, server, onRequest);
    });
    const { port, host, authority } = listener;
    server.logger.info({ event: 'metrics.listening', host, port, path }, 'serving metrics');
    return { port, host, url: `http://${authority}${path}` };
  }

  close(): Promise<void> {
    return this.#port.close();
  }
}
