import type { DrainProgress } from '../../server/drain-options.js';

export type { DrainProgress };

/** The answers of the admin port. */

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
  /** By name, in the order in which they were installed. */
  readonly features: readonly string[];
  /** Whether what keeps sessions beyond this process answers, as far as is known; `null` if there is none. */
  readonly engine: 'answers' | 'stalled' | null;
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
  /** Since when it has no connection, in Unix milliseconds; `null` if one carries it. */
  readonly awaySince: number | null;
  readonly streams: number;
  readonly queuedBytes: number;
  /** The reason why it waits: `credit`, `rate` (as its client sends too much), or none. */
  readonly waits: 'credit' | 'rate' | null;
  readonly roundTripMs: number | null;
  /** How long a PING is unanswered and nothing else has come, in milliseconds; `null` if the client is heard. */
  readonly silentMs: number | null;
  /** Bytes on the wire. */
  readonly received: number;
  readonly sent: number;
  /** Bytes of content, in both directions. */
  readonly content: number;
  readonly algorithms: readonly string[];
  readonly encoding: string | null;
}

/** Answer of `GET /admin/sessions/ID`. */
export interface SessionTimeline {
  readonly session: SessionRow;
  /** Unix milliseconds of this answer. */
  readonly now: number;
  /** The newest ones, oldest first. */
  readonly marks: readonly SessionMark[];
  /** Older ones that are no longer kept. */
  readonly dropped: number;
}

/** Something that has happened to a session. */
export interface SessionMark {
  /** Unix milliseconds. */
  readonly at: number;
  /** `back`: a connection carries it again, after `awayMs` without one. */
  readonly what: 'opened' | 'back' | 'request';
  readonly awayMs?: number;
}

/** One event of `GET /admin/events`. */
export interface AdminEvent {
  /** Another one for each event, also after a restart. */
  readonly id: string;
  /** Unix milliseconds. */
  readonly at: number;
  readonly level: string;
  readonly event: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, string | number | boolean | null>>;
}

/** The sum of a metric over all of its samples with these labels. */
export function total(
  state: AdminState,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number {
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
