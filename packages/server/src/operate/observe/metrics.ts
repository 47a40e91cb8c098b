import { systemClock } from '@parlance/protocol/internal';
import { type MetricObjectWithValues, type MetricValue, Registry } from 'prom-client';
import { packageVersion } from '../../base/package-version.js';
import type { OwnHost } from '../../server/features/own-feature.js';
import type { ServerObserver } from '../../session/observer.js';
import type { Sample } from '../admin/report.js';
import { figureMetrics } from './figures.js';
import { GatewayMetrics } from './gateway-metrics.js';
import type { RequestObserver } from './instrument.js';
import { createMetricKit } from './metric-kit.js';
import { nodeMetrics } from './node-metrics.js';
import { paced } from './paced.js';
import { sessionMetrics } from './session-metrics.js';
import type { Totals } from './totals.js';

/**
 * The server's metrics in Prometheus format: base units, and labels with a handful of values, never an ID.
 * Traffic is not counted here but summed up from the sessions when the metrics are collected, so metrics cost
 * nothing per message.
 */
export interface Metrics extends ServerObserver, RequestObserver {
  readonly contentType: string;
  /** All metrics in Prometheus text format, collected in a tenth of the time at most. */
  expose(): Promise<string>;
  /** All metrics as values, by name. */
  samples(): Promise<ReadonlyMap<string, readonly Sample[]>>;
  /** @param seconds from HELLO. */
  handleAccepted(seconds: number): void;
  /** @param gap seconds without a connection. */
  handleResumed(gap: number): void;
  handleEnded(code: string): void;
}

/** Seconds: from a cached answer to a long completion. */
const DURATION_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];
/** Seconds: from a tunnel of the underground to the end of the resume window. */
const GAP_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 600];
/** Seconds: from one machine to the other end of the world and a bad day. */
const ROUND_TRIP_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];

/** Seconds: from a file on this machine to the timeout of a call. */
const CALL_BUCKETS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2];

/** @param totals what all sessions have sent and received. */
export function createMetrics(host: OwnHost, totals: () => Totals): Metrics {
  const { limits, feed } = host.options;
  const registry = new Registry();
  const kit = createMetricKit(registry);
  const readSessions = sessionMetrics(host, totals, kit);
  const readFigures = figureMetrics(host.figures(), kit);
  const gateway = new GatewayMetrics(kit);
  const accepted = kit.counter('sessions_accepted', 'Sessions accepted and sessions resumed.', ['kind']);
  const refused = kit.counter('sessions_refused', 'Clients that were refused, by REJECT and close code.', [
    'code',
    'close_code',
  ]);
  const ended = kit.counter('sessions_ended', 'Sessions ended, by reason.', ['reason']);
  const handshake = kit.histogram(
    'handshake_seconds',
    'Time from HELLO to the established session, authentication included.',
    DURATION_BUCKETS,
  );
  const gap = kit.histogram(
    'resume_gap_seconds',
    'Time without a connection, of resumed sessions.',
    GAP_BUCKETS,
  );
  const notResumed = kit.counter('resumes_failed', 'Sessions that could not be resumed, by reason.', [
    'reason',
  ]);
  const roundTrip = kit.histogram('round_trip_seconds', 'Time from PING to PONG.', ROUND_TRIP_BUCKETS);
  const limited = kit.counter('rate_limited', 'Times that a client or an address met a limit, by its name.', [
    'limit',
  ]);
  const blocked = kit.counter('scan_blocked', 'Contents that `scan()` has blocked, or could not scan.');
  const transfers = kit.counter('transfers', 'Tensors to and from clients that are over, by outcome.', [
    'direction',
    'outcome',
  ]);
  const calls = kit.counter('engine_calls', 'Calls of the engine that are over, by outcome.', [
    'call',
    'outcome',
  ]);
  const callSeconds = kit.histogram('engine_call_seconds', 'Time of a call of the engine.', CALL_BUCKETS);
  const requests = kit.counter(
    'requests',
    'Requests, by outcome; those that are answered with an HTTP status of 400 and more have `failed`.',
    ['outcome'],
  );
  const duration = kit.histogram(
    'request_duration_seconds',
    'Time from a request to the end of its reply, by outcome.',
    DURATION_BUCKETS,
    ['outcome'],
  );
  const firstPart = kit.histogram(
    'request_first_part_seconds',
    'Time from a request to the first part of its reply with content, without HTTP errors.',
    DURATION_BUCKETS,
  );
  kit
    .gauge('build_info', '1, with the version of the server.', ['version'])
    .set({ version: packageVersion() }, 1);
  const limit = kit.gauge('limit', 'The limits of the server that are finite, by name.', ['name']);
  for (const [name, value] of Object.entries(limits)) if (Number.isFinite(value)) limit.set({ name }, value);
  limit.set({ name: 'memory' }, host.memory.limit);
  feed.subscribe(({ event }) => {
    if (event === 'scan.blocked' || event === 'scan.failed') blocked.inc();
  });
  const all = Registry.merge([registry, nodeMetrics()]);

  const read = (): void => {
    readSessions();
    readFigures();
  };

  return {
    contentType: registry.contentType,
    expose: paced(async () => {
      read();
      return await all.metrics();
    }, systemClock),
    async samples() {
      read();
      return samplesOf(await all.getMetricsAsJSON());
    },
    handleAccepted(seconds) {
      accepted.inc({ kind: 'new' });
      handshake.observe(seconds);
    },
    handleResumed(seconds) {
      accepted.inc({ kind: 'resumed' });
      gap.observe(seconds);
    },
    handleNotResumed: (reason) => notResumed.inc({ reason }),
    handleRefused({ code, closeCode, limit: met }) {
      refused.inc({ code, close_code: String(closeCode) });
      if (met !== undefined) limited.inc({ limit: met });
    },
    handleEnded: (reason) => ended.inc({ reason }),
    handleRequest(outcome, seconds) {
      requests.inc({ outcome });
      duration.observe({ outcome }, seconds);
    },
    handleFirstPart: (seconds) => firstPart.observe(seconds),
    handleRoundTrip: (seconds) => roundTrip.observe(seconds),
    handleTransfer: (direction, outcome) => transfers.inc({ direction, outcome }),
    handleLimited: (met) => limited.inc({ limit: met }),
    handleEngineCall(call, outcome, seconds) {
      calls.inc({ call, outcome });
      callSeconds.observe(seconds);
    },
    handleUpstream: (attempt) => gateway.handleUpstream(attempt),
    handleTokens: (model, tokens) => gateway.handleTokens(model, tokens),
  };
}

/** Those of a histogram are `_bucket`, `_count` and `_sum`, as in the text format. */
function samplesOf(metrics: readonly MetricObjectWithValues<MetricValue<string>>[]): Map<string, Sample[]> {
  const samples = new Map<string, Sample[]>();
  for (const { name, values } of metrics) {
    for (const { labels, value, ...rest } of values) {
      const own = 'metricName' in rest && typeof rest.metricName === 'string' ? rest.metricName : name;
      const list = samples.get(own) ?? [];
      samples.set(own, list);
      list.push({ labels: labels as Sample['labels'], value });
    }
  }
  return samples;
}
