import type { DrainProgress } from '../../server/drain-options.js';

export type { DrainProgress };

/**
 * The reports of the admin port, and the figures that people read from them. The dashboard and `parlance top` share
 * this file, so it imports nothing but types.
 */

export interface Sample {
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
}

/** Answer of `GET /admin/state`. */
export interface AdminState {
  readonly version: string;
  /** The name of this node among others; `null` if the server stands alone. */
  readonly node: string | null;
  readonly mode: 'read' | 'operate';
  /** Unix milliseconds. */
  readonly startedAt: number;
  readonly now: number;
  readonly draining: DrainProgress | null;
  /** The metrics by name, without `parlance_`; histograms with `le` in their labels, and `_count` and `_sum` by name. */
  readonly metrics: Readonly<Record<string, readonly Sample[]>>;
  /** Names of metrics that features want to be seen first. */
  readonly shown: readonly string[];
}

/** Answer of `GET /admin/sessions`. */
export interface AdminSessions {
  /** Of the server, with neither filter nor limit. */
  readonly total: number;
  /** Those that pass the filter. */
  readonly found: number;
  readonly sessions: readonly SessionRow[];
}

export interface SessionRow {
  readonly id: string;
  readonly principal: string | null;
  /** Labels that features give it, by name. */
  readonly labels: Readonly<Record<string, string>>;
  readonly address: string;
  readonly state: string;
  /** Unix milliseconds. */
  readonly since: number;
  /** Until when a client that is away may come back, in Unix milliseconds. */
  readonly suspendedUntil: number | null;
  readonly streams: number;
  readonly queuedBytes: number;
  /** The reason why it waits: `credit`, `rate` (as its client sends too much), or none. */
  readonly waits: 'credit' | 'rate' | null;
  readonly roundTripMs: number | null;
  /** Bytes on the wire. */
  readonly received: number;
  readonly sent: number;
  /** Bytes of content, in both directions. */
  readonly content: number;
  readonly algorithms: readonly string[];
  readonly encoding: string | null;
}

/** One event of `GET /admin/events`. */
export interface AdminEvent {
  /** Unix milliseconds. */
  readonly at: number;
  readonly level: string;
  readonly event: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, string | number | boolean | null>>;
}

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
  /** Sessions that ended while their client was away; tabs that were closed are among them, as they say no goodbye. */
  readonly lost: number;
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
    gap: quantiles(state, undefined, 'resume_gap_seconds'),
    refused: now('sessions_refused_total'),
    tokensPerSecond: since('upstream_tokens_total', { direction: 'completion' }) / seconds,
    loopLag: state.metrics['nodejs_eventloop_lag_p99_seconds']?.[0]?.value,
    memory: state.metrics['process_resident_memory_bytes']?.[0]?.value,
  };
}

/** The sum of a metric over all of its samples with these labels. */
function total(state: AdminState, name: string, labels: Readonly<Record<string, string>> = {}): number {
  let sum = 0;
  for (const sample of state.metrics[name] ?? []) {
    const fits = Object.entries(labels).every(([label, value]) => sample.labels[label] === value);
    if (fits) sum += sample.value;
  }
  return sum;
}

/** How many values of a histogram fell into each bucket, by its upper bound. @param outcome the label of those that count. */
export function bucketsOf(
  state: AdminState,
  before: AdminState | undefined,
  name: string,
  outcome?: string,
): { readonly bound: number; readonly count: number }[] {
  const cumulative = (each: AdminState | undefined) =>
    new Map(
      (each?.metrics[`${name}_bucket`] ?? [])
        .filter(({ labels }) => outcome === undefined || labels['outcome'] === outcome)
        .map(({ labels, value }) => [labels['le'] === '+Inf' ? Infinity : Number(labels['le']), value]),
    );
  const earlier = cumulative(before);
  let below = 0;
  return [...cumulative(state)]
    .sort(([a], [b]) => a - b)
    .map(([bound, value]) => {
      const upTo = value - (earlier.get(bound) ?? 0);
      const count = Math.max(0, upTo - below);
      below = upTo;
      return { bound, count };
    });
}

function quantiles(
  state: AdminState,
  before: AdminState | undefined,
  name: string,
  outcome?: string,
): Quantiles {
  const buckets = bucketsOf(state, before, name, outcome);
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
