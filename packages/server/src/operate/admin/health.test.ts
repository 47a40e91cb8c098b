import { describe, expect, it } from 'vitest';
import { healthOf } from './health.js';
import { type Point, pointOf } from './points.js';
import type { AdminState } from './report.js';

const NOW = 1_700_000_000_000;
const STARTED = NOW - 3_600_000;

type Value = readonly [labels: Readonly<Record<string, string>>, value: number];

/** A state with these metrics. */
function state(
  metrics: Readonly<Record<string, readonly Value[]>> = {},
  change: Partial<AdminState> = {},
): AdminState {
  return {
    version: '1.2.3',
    node: null,
    mode: 'read',
    startedAt: STARTED,
    now: NOW,
    draining: null,
    features: [],
    engine: null,
    shown: [],
    metrics: Object.fromEntries(
      Object.entries(metrics).map(([name, values]) => [
        name,
        values.map(([labels, value]) => ({ labels, value })),
      ]),
    ),
    ...change,
  };
}

/** The figures of a server without any, that long ago. */
const pointAt = (ago: number, change: Partial<Point> = {}): Point => ({
  ...pointOf(state({}, { now: NOW - ago })),
  ...change,
});

const said = (now: AdminState, points: readonly Point[] = [pointAt(60_000)]) =>
  healthOf(now, points).map(({ level, text, remedy }) => `${level}: ${text} ${remedy}`);
const about = (now: AdminState, points?: readonly Point[]) =>
  healthOf(now, points ?? [pointAt(60_000)]).map((finding) => finding.about);

describe('one sentence about a server', () => {
  it('says that all is well, and how many sessions are live', () => {
    const live = (value: number) => state({ sessions: [[{ state: 'connected' }, value]] });
    expect(said(live(0))).toEqual(['well: All is well. No sessions yet.']);
    expect(said(live(1))).toEqual(['well: All is well. 1 session live.']);
    expect(said(live(1_241))).toEqual(['well: All is well. 1,241 sessions live.']);
  });

  it('names the upstream that fails, the most frequent answer, and what to look at', () => {
    const upstream = (status: string, failed: number, model = 'gpt-4o') =>
      state({
        upstream_requests_total: [
          [{ status: '200', model }, 100 - failed],
          [{ status, model }, failed],
        ],
      });
    expect(said(upstream('503', 40))).toEqual([
      'trouble: The upstream fails: 40 % of its requests failed in the last minute (40 of 100), most with HTTP 503. Look at the log of the upstream for gpt-4o.',
    ]);
    expect(said(upstream('failed', 2))[0]).toContain('most with no answer. It cannot be reached.');
    for (const status of ['401', '403']) expect(said(upstream(status, 9))[0]).toContain('Check the API key');
    expect(said(upstream('404', 9, 'other'))[0]).toContain('Check the address of the upstream.');
    expect(said(upstream('429', 9))[0]).toContain('It limits how much may be asked.');
    expect(said(upstream('400', 9))[0]).toContain('It refuses what clients ask for gpt-4o.');
  });

  it('tells of errors from two in a hundred on', () => {
    const failing = (failed: number) =>
      state({
        requests_total: [
          [{ outcome: 'answered' }, 100 - failed],
          [{ outcome: 'failed' }, failed],
        ],
      });
    expect(about(failing(1))).toEqual(['well']);
    expect(said(failing(2))).toEqual([
      'trouble: 2 % of the requests failed here in the last minute (2 of 100). The events request.failed and gateway.failed say why.',
    ]);
  });

  it('does not tell of failures of the upstream as its own', () => {
    const failed: Value = [{ outcome: 'failed' }, 10];
    const both = state({
      requests_total: [failed],
      upstream_requests_total: [[{ status: '500', model: 'none' }, 10]],
    });
    expect(about(both)).toEqual(['upstream']);
  });

  it('counts only the last minute of this process', () => {
    const refused = state({ sessions_refused_total: [[{ code: 'unauthorized' }, 5]] });
    expect(said(refused, [pointAt(3_000_000), pointAt(60_000, { refused: 4 })])).toEqual([
      'notice: 1 client was refused in the last minute. “Refused” says why: a wrong token, or a limit.',
    ]);
    expect(about(refused, [pointAt(60_000, { refused: 5 })])).toEqual(['well']);
    // Counts of the process before it.
    expect(said(refused, [pointAt(60_000, { refused: 5, startedAt: 1 })])[0]).toContain(
      '5 clients were refused in the last 60 min.',
    );
    expect(said(refused, [pointAt(20_000)])[0]).toContain('in the last 20 s.');
  });

  it('tells of clients that have read too slowly for ten seconds, and not of a moment', () => {
    const blocked = state({ sessions_blocked: [[{}, 2]] });
    const points = (...counts: number[]) =>
      counts.map((count, i) => pointAt((counts.length - i) * 5_000, { blocked: count }));
    expect(about(blocked, points(0, 2))).toEqual(['well']);
    expect(about(blocked, points(2))).toEqual(['well']);
    expect(said(blocked, points(1, 3))).toEqual([
      'notice: 1 client reads too slowly. Their answers wait here and take memory. Show “slow” to find them.',
    ]);
    expect(said(blocked, points(2, 3))[0]).toContain('2 clients read too slowly.');
  });

  it('tells of clients that do not answer', () => {
    const silent = (value: number) => said(state({ sessions_silent: [[{}, value]] }))[0];
    expect(silent(1)).toContain('1 client is connected but does not answer. It is frozen,');
    expect(silent(2)).toContain('2 clients are connected but do not answer. They are frozen,');
  });

  it('tells of the limit that is nearest, from nine tenths on', () => {
    const used = (name: string, value: number, most: number) =>
      state({
        limit: [
          [{ name }, most],
          [{ name: 'other' }, 10],
        ],
        limit_used: [
          [{ name: 'other' }, 1],
          [{ name }, value],
        ],
      });
    expect(about(used('sessionsPerIp', 89, 100))).toEqual(['well']);
    expect(said(used('sessionsPerIp', 90, 100))).toEqual([
      'notice: One address has 90 of the 100 sessions that it may have. If many users share it, as behind a proxy, set trustedProxies or raise limits.sessionsPerIp; else further clients are refused.',
    ]);
    expect(said(used('sessionsPerPrincipal', 1_000, 1_000))[0]).toContain(
      'One principal has 1,000 of the 1,000 sessions that it may have. Raise limits.sessionsPerPrincipal;',
    );
    expect(said(used('memory', 95, 100))[0]).toContain('Sessions take 95 % of the memory');
  });

  it('tells trouble before what is only worth a notice', () => {
    const worst = state(
      { sessions_silent: [[{}, 1]], engine_calls_total: [[{ outcome: 'failed' }, 3]] },
      {
        engine: 'stalled',
        draining: { total: 3, remaining: 1, deadline: NOW + 1 } as AdminState['draining'],
      },
    );
    expect(about(worst)).toEqual(['engine', 'silent', 'drain']);
    expect(said(worst)[0]).toContain('The engine does not answer: 3 calls of it failed.');
  });
});
