import { printable } from '@parlance/protocol/inspect';
import type {
  AdminSessions,
  AdminState,
  Bound,
  Figures,
  Finding,
  Quantiles,
  SessionRow,
} from '@parlance/server/admin';
import type { Style, Terminal } from '../base/terminal.js';
import { count, cut, pad, widthOf, wrap } from '../base/text-layout.js';

/** The lines of `parlance top`. */

export interface TopLook {
  readonly state: AdminState;
  readonly figures: Figures;
  /** Worst first. */
  readonly health: readonly [Finding, ...Finding[]];
  readonly sessions: AdminSessions;
  readonly sort: string;
  /** Which sessions are shown; empty for all. */
  readonly show: string;
  readonly find: string;
  /** How long the server has not answered: then all else is what it last said. */
  readonly awayMs?: number | undefined;
  /** Whether keys are read. */
  readonly hasKeys: boolean;
}

interface Column {
  readonly title: string;
  readonly width: number;
  readonly isNumber?: boolean;
  /** Left out on a terminal with fewer columns. */
  readonly from: number;
  value(row: SessionRow, now: number): string;
}

const STATE = 'state';
const COLUMNS: readonly Column[] = [
  { title: 'session', width: 14, from: 92, value: ({ id }) => id.replace(/^sess_/, '') },
  { title: 'principal', width: 14, from: 0, value: nameOf },
  { title: STATE, width: 17, from: 0, value: (row, now) => stateOf(row, now).text },
  { title: 'address', width: 15, from: 110, value: ({ address }) => address },
  { title: 'over', width: 4, from: 130, value: ({ labels }) => labels['transport'] ?? '' },
  { title: 'age', width: 6, isNumber: true, from: 0, value: ({ since }, now) => ageOf(now - since) },
  { title: 'streams', width: 7, isNumber: true, from: 76, value: ({ streams }) => String(streams) },
  { title: 'in', width: 8, isNumber: true, from: 57, value: ({ received }) => bytesOf(received) },
  { title: 'out', width: 8, isNumber: true, from: 57, value: ({ sent }) => bytesOf(sent) },
  { title: 'saved', width: 5, isNumber: true, from: 80, value: (row) => percentOf(savedOf(row)) },
  { title: 'queued', width: 8, isNumber: true, from: 116, value: ({ queuedBytes }) => bytesOf(queuedBytes) },
  {
    title: 'rtt',
    width: 7,
    isNumber: true,
    from: 126,
    value: ({ roundTripMs }) => millisecondsOf(roundTripMs),
  },
];

/** Prefers a label that a feature gives it, as that is nearer to its user than its principal. */
function nameOf({ labels, principal }: SessionRow): string {
  const { transport: _, ...names } = labels;
  return Object.values(names)[0] ?? principal ?? '';
}

/** At most as many lines as the terminal has; all of them without a terminal. */
export function topLines(look: TopLook, terminal: Terminal): string[] {
  const { style } = terminal;
  const width = Math.min(terminal.columns, 160);
  const fit = (line: string) => cut(line, width);
  const { state, sessions, sort, show, find, hasKeys, awayMs } = look;
  const name = state.node === null ? 'parlance' : `parlance ${state.node}`;
  const head = `${name} ${state.version}, up ${ageOf(state.now - state.startedAt)}`;
  const lines = [style('strong', fit(printable(head))), ...healthLines(look, terminal, width)];
  lines.push(...figureLines(look).flatMap((line) => hanging(line, width)));
  if (state.draining !== null) lines.push(...hanging(drainLine(state), width));
  lines.push('');
  const columns = COLUMNS.filter(({ from }) => width >= from);
  const titles = columns.map((column) => cell(column, column.title)).join(' ');
  lines.push(style('faint', fit(titles.trimEnd())));
  const filter = [show, find === '' ? '' : `“${find}”`].filter((text) => text !== '').join(' ');
  const keys = hasKeys ? [`q quits  s sorts: ${sort}  r reverses  f filters: ${filter || 'all'}`] : [];
  const room = Math.max(0, terminal.rows - lines.length - 1 - keys.length);
  for (const row of sessions.sessions.slice(0, room)) {
    const cells = columns.map((column) => {
      const text = cell(column, printable(column.value(row, state.now)));
      // Of a server that is away nothing is known now.
      if (column.title !== STATE || awayMs !== undefined) return text;
      return style(stateOf(row, state.now).style, text);
    });
    lines.push(cells.join(' ').trimEnd());
  }
  const hidden = sessions.found - Math.min(sessions.sessions.length, room);
  if (hidden > 0) lines.push(style('faint', `… and ${numberOf(hidden)} more`));
  return [...lines, ...keys.map((text) => style('faint', fit(printable(text))))].slice(0, terminal.rows);
}

const LEVELS = { well: ['●', 'good'], notice: ['▲', 'notice'], trouble: ['✕', 'bad'] } as const;

/** One sentence, and what to do about it. */
function healthLines({ health, awayMs }: TopLook, { style }: Terminal, width: number): string[] {
  const [{ level, text, remedy }, ...others] = health;
  if (awayMs !== undefined) {
    const away = `server away ${ageOf(awayMs)}, trying`;
    return [style('bad', cut(`✕ ${away}; the figures are older`, width))];
  }
  const [mark, colour] = LEVELS[level];
  const more = others.length === 0 ? '' : ` (and ${others.length} more)`;
  const [first = '', ...rest] = wrap(printable(`${text} ${remedy}${more}`), width - 2);
  return [`${style(colour, mark)} ${first}`, ...rest.map((line) => `  ${line}`)];
}

/** Text that does not fit continues beneath its name. */
function hanging(line: string, width: number): string[] {
  const name = line.slice(0, NAME);
  return wrap(line.slice(NAME), width - NAME).map((part, i) => (i === 0 ? name : ' '.repeat(NAME)) + part);
}

const NAME = 10;

function figureLines({ figures }: TopLook): string[] {
  const f = figures;
  const failed = f.failed === undefined ? '' : `, ${percentOf(f.failed)} failed`;
  const saving =
    f.contentPerSecond > f.wirePerSecond
      ? `, ${percentOf(1 - f.wirePerSecond / f.contentPerSecond)} saved of it`
      : '';
  const shown = Object.entries(f.shown)
    .map(([name, value]) => `; ${numberOf(value)} ${name}`)
    .join('');
  return [
    `sessions  ${numberOf(f.connected)} connected, ${numberOf(f.suspended)} suspended, ${numberOf(f.blocked)} slow, ${numberOf(f.silent)} silent${shown}`,
    `requests  ${rateOf(f.requestsPerSecond)}/s${failed}; first part ${spanOf(f.firstPart)}, reply ${spanOf(f.duration)}`,
    `wire      ${bytesOf(f.wirePerSecond)}/s instead of ${bytesOf(f.contentPerSecond)}/s uncompressed${saving}; ${bytesOf(f.queuedBytes)} queued`,
    `resumed   ${numberOf(f.resumed)}, refused ${numberOf(f.notResumed)}, never came back ${numberOf(f.lost)}, tabs closed ${numberOf(f.left)}; gaps ${spanOf(f.gap)}; clients refused ${numberOf(f.refused)}`,
    `process   loop late ${f.loopLag === undefined ? '–' : `${(f.loopLag * 1000).toFixed(1)} ms`} (p99), ${f.memory === undefined ? '–' : bytesOf(f.memory)} of memory`,
  ];
}

function drainLine({ draining, now }: AdminState): string {
  if (draining === null) return '';
  const { total, remaining, deadline } = draining;
  const gone = Math.max(0, total - remaining);
  const rest = Math.max(0, Math.ceil((deadline - now) / 1000));
  return `draining  ${numberOf(gone)} of ${count(total, 'session has', 'sessions have')} left, ${rest} s to the deadline`;
}

function cell({ width, isNumber = false }: Column, text: string): string {
  const shown = cut(text, width);
  return isNumber ? ' '.repeat(Math.max(0, width - widthOf(shown))) + shown : pad(shown, width);
}

/** A sign and a word: colours only say it again. */
function stateOf(row: SessionRow, now: number): { readonly text: string; readonly style: Style } {
  const { waits, suspendedUntil, silentMs, state } = row;
  if (suspendedUntil !== null) {
    const left = Math.max(0, Math.ceil((suspendedUntil - now) / 1000));
    return { text: `◐ away, ${left} s left`, style: 'notice' };
  }
  if (silentMs !== null) return { text: `✕ silent ${ageOf(silentMs)}`, style: 'bad' };
  if (waits !== null)
    return { text: `▲ ${waits === 'credit' ? 'reads slowly' : 'sends too much'}`, style: 'notice' };
  return state === 'established'
    ? { text: '● live', style: 'good' }
    : { text: `○ ${state}`, style: 'notice' };
}

function savedOf({ content, sent, received }: SessionRow): number | undefined {
  // Below that, most bytes are those of the handshake.
  return content > sent + received ? 1 - (sent + received) / content : undefined;
}

function percentOf(part: number | undefined): string {
  return part === undefined ? '' : `${Math.round(Math.max(-9.99, part) * 100)}%`;
}

function spanOf({ p50, p95 }: Quantiles): string {
  return p50 === undefined || p95 === undefined ? '–' : `${boundOf(p50)} (p95 ${boundOf(p95)})`;
}

/** All that a bucket tells. */
function boundOf({ seconds, is }: Bound): string {
  return `${is === 'most' ? '≤' : '>'} ${secondsOf(seconds)}`;
}

function secondsOf(seconds: number): string {
  return seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(1)} s`;
}

function millisecondsOf(ms: number | null): string {
  return ms === null ? '' : `${Math.round(ms)} ms`;
}

function ageOf(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} d`;
}

function rateOf(value: number): string {
  return value < 10 ? value.toFixed(1) : numberOf(Math.round(value));
}

function numberOf(value: number): string {
  return value.toLocaleString('en');
}

/** 1 kB is 1000 bytes. */
function bytesOf(count: number): string {
  if (count < 1000) return `${Math.round(count)} B`;
  const units = ['kB', 'MB', 'GB', 'TB'];
  let value = count / 1000;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}
