import { isUpstreamError, type Point, pointBefore, pointOf, upstreamSince } from './points.js';
import type { AdminState } from './report.js';

/** One sentence about what is wrong, and what to do about it. */
export interface Finding {
  readonly about:
    | 'upstream'
    | 'engine'
    | 'failed'
    | 'limit'
    | 'refused'
    | 'slow'
    | 'silent'
    | 'drain'
    | 'well';
  readonly level: 'well' | 'notice' | 'trouble';
  readonly text: string;
  readonly remedy: string;
}

const MINUTE_MS = 60_000;
/** How long clients may wait to read before that is told. */
const SLOW_MS = 10_000;
/** From here on errors of an upstream or of handlers are told. */
const ERRORS = 0.02;
const NEAR_LIMIT = 0.9;

/**
 * Judges a server by its last minute, or since its start or the first point if that is less. Returns its faults, worst first, or the
 * one finding that all is well.
 *
 * @param points earlier ones, oldest first; those of other processes do not count.
 */
export function healthOf(state: AdminState, points: readonly Point[]): readonly [Finding, ...Finding[]] {
  const now = pointOf(state);
  const before = pointBefore(points, now, MINUTE_MS);
  const span = spanOf(now.at - (before?.at ?? state.startedAt));
  const found = [
    ...engine(state, now, before),
    ...upstream(now, before, span),
    ...handlers(now, before, span),
    ...limit(state),
    ...slow(now, points),
    ...silent(now),
    ...refused(now, before, span),
    ...drain(state),
  ];
  const [first, ...others] = found.toSorted((a, b) => RANKS[b.level] - RANKS[a.level]);
  return first === undefined ? [well(now)] : [first, ...others];
}

const RANKS = { well: 0, notice: 1, trouble: 2 } as const;

function engine({ engine: said }: AdminState, now: Point, before: Point | undefined): Finding[] {
  if (said !== 'stalled') return [];
  const failed = now.engineFailed - (before?.engineFailed ?? 0);
  const calls = failed > 0 ? `: ${count(failed, 'call')} of it failed` : '';
  return [
    trouble(
      'engine',
      `The engine does not answer${calls}.`,
      'Sessions continue here, but would not outlive this process. Check Redis, Postgres or the disk.',
    ),
  ];
}

function upstream(now: Point, before: Point | undefined, span: string): Finding[] {
  const all = upstreamSince(now, before);
  const errors = all.filter(([key]) => isUpstreamError(key));
  const [asked, failed] = [sum(all), sum(errors)];
  const [worst] = errors;
  if (worst === undefined || failed / asked < ERRORS) return [];
  const [status = '', model = ''] = worst[0].split(' ');
  const answer = status === 'failed' ? 'no answer' : `HTTP ${status}`;
  const text = `The upstream fails: ${percent(failed / asked)} of its requests failed in ${span} (${number(failed)} of ${number(asked)}), most with ${answer}.`;
  return [trouble('upstream', text, remedyOf(status, model))];
}

function remedyOf(status: string, model: string): string {
  if (status === 'failed') return 'It cannot be reached. Check its address and whether it runs.';
  if (status === '401' || status === '403') return 'Check the API key of the gateway.';
  if (status === '404') return `Check the address of the upstream${named(model)}.`;
  if (status === '429') return 'It limits how much may be asked. Ask less, or have the limit raised.';
  if (status.startsWith('4')) return `It refuses what clients ask${named(model)}.`;
  return `Look at the log of the upstream${named(model)}.`;
}

const named = (model: string) => (model === 'other' || model === 'none' ? '' : ` for ${model}`);

/** Failures of handlers; those of an upstream are told as such. */
function handlers(now: Point, before: Point | undefined, span: string): Finding[] {
  const requests = now.requests - (before?.requests ?? 0);
  const failed =
    now.failed -
    (before?.failed ?? 0) -
    sum(upstreamSince(now, before).filter(([key]) => isUpstreamError(key)));
  if (requests === 0 || failed <= 0 || failed / requests < ERRORS) return [];
  const text = `${percent(failed / requests)} of the requests failed here in ${span} (${number(failed)} of ${number(requests)}).`;
  return [trouble('failed', text, 'The events request.failed and gateway.failed say why.')];
}

function limit({ metrics }: AdminState): Finding[] {
  const limits = new Map((metrics['limit'] ?? []).map(({ labels, value }) => [labels['name'], value]));
  const [nearest] = (metrics['limit_used'] ?? [])
    .map(({ labels, value }) => ({
      name: String(labels['name']),
      value,
      most: limits.get(labels['name']) ?? Infinity,
    }))
    .filter(({ value, most }) => value >= most * NEAR_LIMIT)
    .sort((a, b) => b.value / b.most - a.value / a.most);
  if (nearest === undefined) return [];
  const { name, value, most } = nearest;
  if (name === 'memory')
    return [
      notice(
        'limit',
        `Sessions take ${percent(value / most)} of the memory that they may take.`,
        'Add a node, or memory.',
      ),
    ];
  const whose = name === 'sessionsPerIp' ? 'address' : 'principal';
  const text = `One ${whose} has ${number(value)} of the ${number(most)} sessions that it may have.`;
  const why =
    whose === 'address' ? 'If many users share it, as behind a proxy, set trustedProxies or raise' : 'Raise';
  return [notice('limit', text, `${why} limits.${name}; else further clients are refused.`)];
}

function slow(now: Point, points: readonly Point[]): Finding[] {
  const recent = points.filter(({ at, startedAt }) => startedAt === now.startedAt && at >= now.at - SLOW_MS);
  const earlier = pointBefore(points, now, SLOW_MS);
  if (earlier === undefined || now.at - earlier.at < SLOW_MS) return [];
  const least = Math.min(now.blocked, earlier.blocked, ...recent.map(({ blocked }) => blocked));
  if (least === 0) return [];
  const text = `${count(least, 'client')} ${least === 1 ? 'reads' : 'read'} too slowly.`;
  return [notice('slow', text, 'Their answers wait here and take memory. Show “slow” to find them.')];
}

function silent({ silent: clients }: Point): Finding[] {
  if (clients === 0) return [];
  const [text, remedy] =
    clients === 1
      ? ['1 client is connected but does not answer.', 'It is frozen, or its network is gone.']
      : [
          `${number(clients)} clients are connected but do not answer.`,
          'They are frozen, or their network is gone.',
        ];
  return [notice('silent', text, `${remedy} The server gives such connections up by itself.`)];
}

function refused(now: Point, before: Point | undefined, span: string): Finding[] {
  const clients = now.refused - (before?.refused ?? 0);
  if (clients === 0) return [];
  const text = `${count(clients, 'client')} ${clients === 1 ? 'was' : 'were'} refused in ${span}.`;
  return [notice('refused', text, '“Refused” says why: a wrong token, or a limit.')];
}

function drain({ draining }: AdminState): Finding[] {
  if (draining === null) return [];
  return [
    notice(
      'drain',
      'The server drains.',
      'It admits no new sessions, and ends with the last one or at the deadline.',
    ),
  ];
}

function well({ connected, suspended }: Point): Finding {
  const sessions = connected + suspended === 0 ? 'No sessions yet.' : `${count(connected, 'session')} live.`;
  return { about: 'well', level: 'well', text: 'All is well.', remedy: sessions };
}

type Of = Finding['about'];
const trouble = (about: Of, text: string, remedy: string): Finding => ({
  about,
  level: 'trouble',
  text,
  remedy,
});
const notice = (about: Of, text: string, remedy: string): Finding => ({
  about,
  level: 'notice',
  text,
  remedy,
});
const sum = (counts: readonly (readonly [string, number])[]) =>
  counts.reduce((all, [, value]) => all + value, 0);
const number = (value: number) => value.toLocaleString('en');
const count = (value: number, noun: string) => `${number(value)} ${noun}${value === 1 ? '' : 's'}`;

/** `the last 40 s`, `the last minute`. */
function spanOf(ms: number): string {
  const seconds = Math.max(1, Math.round(ms / 1000));
  if (seconds < 55) return `the last ${seconds} s`;
  return seconds < 90 ? 'the last minute' : `the last ${Math.round(seconds / 60)} min`;
}

/** `43 %`, and not `0 %` of what has happened. */
function percent(part: number): string {
  const value = part * 100;
  return value > 0 && value < 1 ? '< 1 %' : `${Math.round(value)} %`;
}
