import { type AdminState, bucketsOf, total } from './report.js';

/** The figures of a server at one time: gauges as they were, and counts since its start. */
export interface Point {
  /** Unix milliseconds. */
  readonly at: number;
  /** Of the process: counts of another one begin again. */
  readonly startedAt: number;
  readonly connected: number;
  readonly suspended: number;
  readonly blocked: number;
  readonly silent: number;
  readonly requests: number;
  readonly failed: number;
  readonly wire: number;
  readonly content: number;
  readonly resumed: number;
  readonly lost: number;
  readonly left: number;
  readonly refused: number;
  /** Limits that clients have met. */
  readonly limited: number;
  /** Calls of the engine that were not answered. */
  readonly engineFailed: number;
  /** Requests to upstreams, by `STATUS MODEL`. */
  readonly upstream: Readonly<Record<string, number>>;
  /** Replies that have begun, by the bounds of `request_first_part_seconds`. */
  readonly first: readonly number[];
}

/** Answer of `GET /admin/history`. */
export interface AdminHistory {
  /** Oldest first. */
  readonly points: readonly Point[];
}

export function pointOf(state: AdminState): Point {
  const { now, startedAt, metrics } = state;
  const of = (name: string, labels?: Readonly<Record<string, string>>) => total(state, name, labels);
  return {
    at: now,
    startedAt,
    connected: of('sessions', { state: 'connected' }),
    suspended: of('sessions', { state: 'suspended' }),
    blocked: of('sessions_blocked'),
    silent: of('sessions_silent'),
    requests: of('requests_total'),
    failed: of('requests_total', { outcome: 'failed' }),
    wire: of('wire_bytes_total'),
    content: of('content_bytes_total'),
    resumed: of('sessions_accepted_total', { kind: 'resumed' }),
    lost: of('sessions_ended_total', { reason: 'session_lost' }),
    left: of('sessions_ended_total', { reason: 'page_left' }),
    refused: of('sessions_refused_total'),
    limited: of('rate_limited_total'),
    engineFailed: of('engine_calls_total') - of('engine_calls_total', { outcome: 'answered' }),
    upstream: Object.fromEntries(
      (metrics['upstream_requests_total'] ?? []).map(({ labels, value }) => [
        `${labels['status']} ${labels['model']}`,
        value,
      ]),
    ),
    first: bucketsOf(state, undefined, 'request_first_part_seconds').map(({ count }) => count),
  };
}

/** Whether the status of {@link Point.upstream} is an error. */
export const isUpstreamError = (key: string): boolean => !/^[123]/.test(key);

/** The counts that grew between two points of one process, by the keys of {@link Point.upstream}. */
export function upstreamSince(now: Point, before: Point | undefined): readonly (readonly [string, number])[] {
  const earlier = before?.startedAt === now.startedAt ? before.upstream : {};
  return Object.entries(now.upstream)
    .map(([key, value]) => [key, value - (earlier[key] ?? 0)] as const)
    .filter(([, value]) => value > 0)
    .sort(([, a], [, b]) => b - a);
}

/** The newest point of this process that is at least as old, or its oldest one. @param points oldest first. */
export function pointBefore(points: readonly Point[], now: Point, ms: number): Point | undefined {
  const own = points.filter(({ startedAt, at }) => startedAt === now.startedAt && at < now.at);
  return own.findLast(({ at }) => at <= now.at - ms) ?? own[0];
}
