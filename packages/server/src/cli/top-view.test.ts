import { describe, expect, it } from 'vitest';
import { type AdminSessions, type AdminState, figuresOf, type SessionRow } from '../admin/figures.js';
import { createPaper } from './testing/paper.js';
import { widthOf } from './text-layout.js';
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
    sessions: list,
    sort: 'wire',
    hasKeys: true,
  };
  return topLines(look, createPaper(columns).terminal);
}

describe('the figures', () => {
  it('are rates since the look before, and quantiles within buckets', () => {
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
    expect(figures.firstPart.p50).toBeCloseTo(0.3);
    expect(figuresOf(state(), undefined).firstPart.p95).toBeCloseTo(0.46);
    // Another process has taken over: what was counted before says nothing about it.
    expect(figuresOf(later, { ...before, startedAt: 1 }).requestsPerSecond).toBeCloseTo(140 / 60);
    expect(figuresOf(state({ metrics: {} }), undefined)).toMatchObject({ connected: 0, failed: undefined });
  });
});

describe('parlance top', () => {
  it.each([40, 80, 120, 200])('keeps to %i columns, and to the height of the terminal', (columns) => {
    const rows = Array.from({ length: 50 }, () => row({ principal: '世界'.repeat(20), waits: 'credit' }));
    const lines = shown(columns, rows, { draining: { deadline: NOW + 11_000, total: 1284, left: 360 } });
    for (const line of lines) expect(widthOf(line)).toBeLessThanOrEqual(columns);
    expect(lines.length).toBeLessThanOrEqual(24);
  });

  it('names a session by what a feature says of it', () => {
    const text = shown(undefined, [row(), row({ labels: { robot: 'r2' } })]).join('\n');
    expect(text).toMatch(/ acme .* 41 kB.*\n.* r2 .* 41 kB/);
    expect(text).toContain('0 waiting; 3 robots');
  });

  it('says what a session waits for, and what a drain does', () => {
    const rows = [row({ waits: 'rate' }), row({ state: 'suspended', suspendedUntil: NOW + 41_000 })];
    const text = shown(undefined, rows, {
      draining: { deadline: NOW + 11_000, total: 1284, left: 360 },
    }).join('\n');
    expect(text).toContain('924 of 1,284 sessions have left, 11 s to the deadline');
    expect(text).toContain('away, 41 s left');
    expect(text).toMatch(/acme .* 41 kB +812 kB +96% .*rate/);
    expect(text).toContain('1,241 connected, 43 suspended');
    expect(text).toContain('2% failed');
    expect(text).toContain('… and 1,282 more');
  });

  it('shows nothing that a client could use to write to the terminal', () => {
    const text = shown(undefined, [row({ principal: 'a\u001b[2Jb', address: '\u0007' })]).join('\n');
    expect([...text].filter((character) => character < ' ' && character !== '\n')).toEqual([]);
  });
});
