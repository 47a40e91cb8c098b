import {
  type AdminSessions,
  type AdminState,
  figuresOf,
  healthOf,
  type SessionRow,
} from '@parlance/server/admin';
import { describe, expect, it } from 'vitest';
import { createPaper } from '../base/testing/paper.js';
import { widthOf } from '../base/text-layout.js';
import { topLines } from './top-view.js';

const NOW = 1_700_000_000_000;

const row = (change: Partial<SessionRow> = {}): SessionRow => ({
  id: 'sess_Qch15fLZabcdefghijkl',
  principal: 'acme',
  labels: {},
  address: '203.0.113.40',
  state: 'established',
  since: NOW - 7_440_000,
  suspendedUntil: null,
  awaySince: null,
  silentMs: null,
  streams: 3,
  queuedBytes: 0,
  waits: null,
  roundTripMs: 18,
  received: 41_000,
  sent: 812_000,
  content: 21_000_000,
  algorithms: ['TOKEN_NATIVE'],
  encoding: 'CL100K_BASE',
  ...change,
});

const state = (change: Partial<AdminState> = {}): AdminState => ({
  version: '1.2.3',
  node: null,
  mode: 'read',
  startedAt: NOW - 60_000,
  now: NOW,
  draining: null,
  features: [],
  engine: null,
  metrics: {
    sessions: [
      { labels: { state: 'connected' }, value: 1241 },
      { labels: { state: 'suspended' }, value: 43 },
    ],
    requests_total: [
      { labels: { outcome: 'answered' }, value: 118 },
      { labels: { outcome: 'failed' }, value: 2 },
    ],
    wire_bytes_total: [{ labels: { direction: 'sent' }, value: 60_000 }],
    content_bytes_total: [{ labels: { direction: 'sent' }, value: 1_200_000 }],
    request_first_part_seconds_bucket: [
      { labels: { le: 0.1 }, value: 50 },
      { labels: { le: 0.5 }, value: 100 },
      { labels: { le: '+Inf' }, value: 100 },
    ],
    robots: [{ labels: {}, value: 3 }],
  },
  shown: ['robots'],
  ...change,
});

function shown(
  columns: number | undefined,
  sessions: readonly SessionRow[],
  change: Partial<AdminState> = {},
) {
  const now = state(change);
  const list: AdminSessions = { total: 1284, found: 1284, sessions };
  const look = {
    state: now,
    figures: figuresOf(now, undefined),
    health: healthOf(now, []),
    show: '',
    find: '',
    sessions: list,
    sort: 'wire',
    hasKeys: true,
  };
  return topLines(look, createPaper(columns).terminal);
}

describe('the figures', () => {
  it('are rates since the look before, and the buckets of quantiles', () => {
    const before = state({ now: NOW - 2_000 });
    const later = state({
      metrics: {
        ...before.metrics,
        requests_total: [{ labels: { outcome: 'answered' }, value: 140 }],
        request_first_part_seconds_bucket: [
          { labels: { le: 0.1 }, value: 50 },
          { labels: { le: 0.5 }, value: 110 },
          { labels: { le: '+Inf' }, value: 110 },
        ],
      },
    });
    const figures = figuresOf(later, before);
    expect(figures.requestsPerSecond).toBe(10);
    expect(figures.firstPart.p50).toEqual({ seconds: 0.5, is: 'most' });
    expect(figuresOf(state(), undefined).firstPart).toEqual({
      p50: { seconds: 0.1, is: 'most' },
      p95: { seconds: 0.5, is: 'most' },
    });
    // Another process has taken over: what was counted before says nothing about it.
    expect(figuresOf(later, { ...before, startedAt: 1 }).requestsPerSecond).toBeCloseTo(140 / 60);
    expect(figuresOf(state({ metrics: {} }), undefined)).toMatchObject({ connected: 0, failed: undefined });
  });
});

describe('what buckets tell of quantiles', () => {
  /** As many gaps within each bound. */
  const gaps = (counts: readonly number[]) => {
    const bounds = [0.5, 5, 10, '+Inf'];
    let sum = 0;
    const resume_gap_seconds_bucket = bounds.map((le, i) => {
      sum += counts[i] ?? 0;
      return { labels: { le }, value: sum };
    });
    return figuresOf(state({ metrics: { resume_gap_seconds_bucket } }), undefined).gap;
  };

  it('is their bound, and nothing between two of them', () => {
    expect(gaps([12, 0, 1, 0])).toEqual({
      p50: { seconds: 0.5, is: 'most' },
      p95: { seconds: 10, is: 'most' },
    });
    expect(gaps([1, 0, 0, 3])).toEqual({
      p50: { seconds: 10, is: 'least' },
      p95: { seconds: 10, is: 'least' },
    });
    expect(gaps([0, 0, 0, 0])).toEqual({ p50: undefined, p95: undefined });
    const text = shown(undefined, [], {
      metrics: {
        resume_gap_seconds_bucket: [
          { labels: { le: 0.5 }, value: 19 },
          { labels: { le: 10 }, value: 20 },
          { labels: { le: '+Inf' }, value: 40 },
        ],
      },
    }).join('\n');
    expect(text).toContain('gaps ≤ 10.0 s (p95 > 10.0 s)');
  });

  it('leaves out the time of replies that failed', () => {
    const metrics = {
      request_duration_seconds_bucket: [
        { labels: { le: 0.01, outcome: 'failed' }, value: 90 },
        { labels: { le: '+Inf', outcome: 'failed' }, value: 90 },
        { labels: { le: 0.01, outcome: 'answered' }, value: 0 },
        { labels: { le: 5, outcome: 'answered' }, value: 10 },
        { labels: { le: '+Inf', outcome: 'answered' }, value: 10 },
      ],
    };
    const { duration } = figuresOf(state({ metrics }), undefined);
    expect(duration.p50).toEqual({ seconds: 5, is: 'most' });
  });
});

describe('parlance top', () => {
  it('tells sessions that ended while their client was away from those that were refused', () => {
    const metrics = {
      sessions_accepted_total: [{ labels: { kind: 'resumed' }, value: 13 }],
      sessions_ended_total: [
        { labels: { reason: 'session_lost' }, value: 42 },
        { labels: { reason: 'page_left' }, value: 5 },
        { labels: { reason: 'closed' }, value: 7 },
      ],
      resumes_failed_total: [{ labels: { reason: 'unknown_session' }, value: 2 }],
    };
    expect(shown(undefined, [], { metrics }).join('\n')).toContain(
      'resumed   13, refused 2, never came back 42, tabs closed 5;',
    );
  });

  it.each([40, 60, 80, 120, 200])('keeps to %i columns, and to the height of the terminal', (columns) => {
    const rows = Array.from({ length: 50 }, () => row({ principal: '世界'.repeat(20), waits: 'credit' }));
    const lines = shown(columns, rows, { draining: { deadline: NOW + 11_000, total: 1284, remaining: 360 } });
    for (const line of lines) expect(widthOf(line)).toBeLessThanOrEqual(columns);
    expect(lines.length).toBeLessThanOrEqual(24);
  });

  it('names a session by what a feature says of it', () => {
    const text = shown(undefined, [row(), row({ labels: { robot: 'r2' } })]).join('\n');
    expect(text).toMatch(/ acme .* 41 kB.*\n.* r2 .* 41 kB/);
    expect(text).toContain('0 slow, 0 silent; 3 robots');
  });

  it('says which sessions come over HTTP, and names them as others', () => {
    const lines = shown(140, [row(), row({ labels: { transport: 'http' } })]);
    expect(lines.filter((line) => / over /.test(line))).toHaveLength(1);
    expect(lines.filter((line) => / acme +● live +203\.0\.113\.40 +http /.test(line))).toHaveLength(1);
    expect(lines.filter((line) => / acme /.test(line))).toHaveLength(2);
  });

  it('says what a session waits for, and what a drain does', () => {
    const rows = [row({ waits: 'rate' }), row({ state: 'suspended', suspendedUntil: NOW + 41_000 })];
    const text = shown(undefined, rows, {
      draining: { deadline: NOW + 11_000, total: 1284, remaining: 360 },
    }).join('\n');
    expect(text).toContain('924 of 1,284 sessions have left, 11 s to the deadline');
    expect(text).toContain('away, 41 s left');
    expect(text).toMatch(/acme +▲ sends too much .* 41 kB +812 kB +96%/);
    expect(text).toContain('1,241 connected, 43 suspended');
    expect(text).toContain('2% failed');
    expect(text).toContain('… and 1,282 more');
  });

  it('shows nothing that a client could use to write to the terminal', () => {
    const text = shown(undefined, [row({ principal: 'a\u001b[2Jb', address: '\u0007' })]).join('\n');
    expect([...text].filter((character) => character < ' ' && character !== '\n')).toEqual([]);
  });
});
