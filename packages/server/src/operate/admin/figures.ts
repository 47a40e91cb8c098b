import { type AdminState, bucketsOf, total } from './report.js';

export * from './health.js';
export * from './points.js';
export type * from './report.js';
export { bucketsOf };

/**
 * The figures that people read from the reports of the admin port. The dashboard and `parlance top` share this file and those that it
 * names, so they import nothing else.
 */

/** The figures that an operator looks at. Rates are per second, since the state before. */
export interface Figures {
  readonly connected: number;
  readonly suspended: number;
  readonly blocked: number;
  readonly streams: number;
  readonly queuedBytes: number;
  /** By the names of {@link AdminState.shown}. */
  readonly shown: Readonly<Record<string, number>>;
  readonly requestsPerSecond: number;
  /** From 0 to 1; `undefined` without requests. */
  readonly failed: number | undefined;
  /** Seconds; `undefined` without any in this interval. */
  readonly firstPart: Quantiles;
  readonly duration: Quantiles;
  readonly wirePerSecond: number;
  readonly contentPerSecond: number;
  /** Connections that were lost and came back, since the server has started. */
  readonly resumed: number;
  /** Sessions that clients came back for, and that the server could not resume. */
  readonly notResumed: number;
  /** Sessions whose client has vanished and never came back. */
  readonly lost: number;
  /** Sessions that ended because their page was closed or left: its browser has said so. */
  readonly left: number;
  /** Sessions whose client answers no PING. */
  readonly silent: number;
  readonly gap: Quantiles;
  readonly refused: number;
  readonly tokensPerSecond: number;
  /** Seconds that the event loop was late, p99. */
  readonly loopLag: number | undefined;
  readonly memory: number | undefined;
}

/** Of values that are counted in buckets. */
export interface Quantiles {
  readonly p50: Bound | undefined;
  readonly p95: Bound | undefined;
}

/** All that is known of a value that was counted in a bucket. */
export interface Bound {
  /** Of the bucket, in seconds. */
  readonly seconds: number;
  /** `most`: it is not greater. `least`: it is greater than the greatest bound. */
  readonly is: 'most' | 'least';
}

/** @param before an earlier state of the same process; without one, rates are those since the start. */
export function figuresOf(state: AdminState, before: AdminState | undefined): Figures {
  const isSame = before !== undefined && before.startedAt === state.startedAt && before.now < state.now;
  const earlier = isSame ? before : undefined;
  const seconds = Math.max(0.001, (state.now - (earlier?.now ?? state.startedAt)) / 1000);
  const now = (name: string, labels?: Readonly<Record<string, string>>) => total(state, name, labels);
  const since = (name: string, labels?: Readonly<Record<string, string>>) =>
    Math.max(0, now(name, labels) - (earlier === undefined ? 0 : total(earlier, name, labels)));
  const requests = since('requests_total');
  return {
    connected: now('sessions', { state: 'connected' }),
    suspended: now('sessions', { state: 'suspended' }),
    blocked: now('sessions_blocked'),
    streams: now('streams_open'),
    queuedBytes: now('queued_bytes'),
    shown: Object.fromEntries(state.shown.map((name) => [name, now(name)])),
    requestsPerSecond: requests / seconds,
    failed: requests === 0 ? undefined : since('requests_total', { outcome: 'failed' }) / requests,
    firstPart: quantiles(state, earlier, 'request_first_part_seconds'),
    duration: quantiles(state, earlier, 'request_duration_seconds', 'answered'),
    wirePerSecond: since('wire_bytes_total') / seconds,
    contentPerSecond: since('content_bytes_total') / seconds,
    resumed: now('sessions_accepted_total', { kind: 'resumed' }),
    notResumed: now('resumes_failed_total'),
    lost: now('sessions_ended_total', { reason: 'session_lost' }),
    left: now('sessions_ended_total', { reason: 'page_left' }),
    silent: now('sessions_silent'),
    gap: quantiles(state, undefined, 'resume_gap_seconds'),
    refused: now('sessions_refused_total'),
    tokensPerSecond: since('upstream_tokens_total', { direction: 'completion' }) / seconds,
    loopLag: state.metrics['nodejs_eventloop_lag_p99_seconds']?.[0]?.value,
    memory: state.metrics['process_resident_memory_bytes']?.[0]?.value,
  };
}

function quantiles(
  state: AdminState,
  before: AdminState | undefined,
  name: string,
  outcome?: string,
): Quantiles {
  return quantilesOf(bucketsOf(state, before, name, outcome));
}

/** Half and nearly all of what fell into buckets. */
export function quantilesOf(buckets: ReturnType<typeof bucketsOf>): Quantiles {
  return { p50: quantile(buckets, 0.5), p95: quantile(buckets, 0.95) };
}

/** The bucket is known and not the place within it: an estimate would be a value that was never measured. */
function quantile(buckets: ReturnType<typeof bucketsOf>, part: number): Bound | undefined {
  const all = buckets.reduce((sum, { count }) => sum + count, 0);
  if (all === 0) return undefined;
  let rank = all * part;
  let lower = 0;
  for (const { bound, count } of buckets) {
    if (rank <= count && bound !== Infinity) return { seconds: bound, is: 'most' };
    rank -= count;
    if (bound !== Infinity) lower = bound;
  }
  return { seconds: lower, is: 'least' };
}
