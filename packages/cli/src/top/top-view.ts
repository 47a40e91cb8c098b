import { printable } from '@parlance/protocol/inspect';
import type {
  AdminSessions,
  AdminState,
  Bound,
  Figures,
  Quantiles,
  SessionRow,
} from '@parlance/server/admin';
import type { Terminal } from '../base/terminal.js';
import { cut, pad, widthOf } from '../base/text-layout.js';

/** The lines of `parlance top`. */

export interface TopLook {
  readonly state: AdminState;
  readonly figures: Figures;
  readonly sessions: AdminSessions;
  readonly sort: string;
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

const COLUMNS: readonly Column[] = [
  { title: 'session', width: 14, from: 0, value: ({ id }) => id.replace(/^sess_/, '') },
  { title: 'principal', width: 14, from: 0, value: nameOf },
  { title: 'address', width: 15, from: 100, value: ({ address }) => address },
  { title: 'over', width: 4, from: 130, value: ({ labels }) => labels['transport'] ?? '' },
  { title: 'age', width: 6, isNumber: true, from: 0, value: ({ since }, now) => ageOf(now - since) },
  { title: 'streams', width: 7, isNumber: true, from: 90, value: ({ streams }) => String(streams) },
  { title: 'in', width: 8, isNumber: true, from: 0, value: ({ received }) => bytesOf(received) },
  { title: 'out', width: 8, isNumber: true, from: 0, value: ({ sent }) => bytesOf(sent) },
  { title: 'saved', width: 5, isNumber: true, from: 60, value: (row) => percentOf(savedOf(row)) },
  { title: 'queued', width: 8, isNumber: true, from: 110, value: ({ queuedBytes }) => bytesOf(queuedBytes) },
  {
    title: 'rtt',
    width: 7,
    isNumber: true,
    from: 120,
    value: ({ roundTripMs }) => millisecondsOf(roundTripMs),
  },
  { title: 'waits', width: 18, from: 0, value: (row, now) => waitsOf(row, now) },
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
  const { state, sessions, sort, hasKeys } = look;
  const name = state.node === null ? 'parlance' : `parlance ${state.node}`;
  const head = `${name} ${state.version}, up ${ageOf(state.now - state.startedAt)}`;
  const lines = [style('strong', fit(printable(head))), ...figureLines(look).map(fit)];
  if (state.draining !== null) lines.push(style('notice', fit(drainLine(state))));
  lines.push('');
  const columns = COLUMNS.filter(({ from }) => width >= from);
  lines.push(
    style(
      'faint',
      fit(
        columns
          .map((column) => cell(column, column.title))
          .join(' ')
          .trimEnd(),
      ),
    ),
  );
  const keys = hasKeys ? [`q quits, s sorts (${sort}), r reverses`] : [];
  const room = terminal.rows - lines.length - 1 - keys.length;
  for (const row of sessions.sessions.slice(0, Math.max(0, room))) {
    const line = fit(
      columns
        .map((column) => cell(column, printable(column.value(row, state.now))))
        .join(' ')
        .trimEnd(),
    );
    lines.push(row.state === 'suspended' ? style('notice', line) : line);
  }
  const hidden = sessions.total - Math.min(sessions.sessions.length, Math.max(0, room));
  if (hidden > 0) lines.push(style('faint', `… and ${hidden.toLocaleString('en')} more`));
  return [...lines, ...keys.map((text) => style('faint', fit(text)))];
}

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
    `sessions  ${numberOf(f.connected)} connected, ${numberOf(f.suspended)} suspended, ${numberOf(f.blocked)} waiting${shown}`,
    `requests  ${rateOf(f.requestsPerSecond)}/s${failed}; first part ${spanOf(f.firstPart)}, reply ${spanOf(f.duration)}`,
    `wire      ${bytesOf(f.wirePerSecond)}/s instead of ${bytesOf(f.contentPerSecond)}/s uncompressed${saving}; ${bytesOf(f.queuedBytes)} queued`,
    `resumed   ${numberOf(f.resumed)}, refused ${numberOf(f.notResumed)}, ended while away ${numberOf(f.lost)}; gaps ${spanOf(f.gap)}; clients refused ${numberOf(f.refused)}`,
    `process   loop late ${f.loopLag === undefined ? '–' : `${(f.loopLag * 1000).toFixed(1)} ms`} (p99), ${f.memory === undefined ? '–' : bytesOf(f.memory)} of memory`,
  ];
}

function drainLine({ draining, now }: AdminState): string {
  if (draining === null) return '';
  const { total, left, deadline } = draining;
  const gone = Math.max(0, total - left);
  const rest = Math.max(0, Math.ceil((deadline - now) / 1000));
  return `draining  ${numberOf(gone)} of ${numberOf(total)} sessions have left, ${rest} s to the deadline`;
}

function cell({ width, isNumber = false }: Column, text: string): string {
  const shown = cut(text, width);
  return isNumber ? ' '.repeat(Math.max(0, width - widthOf(shown))) + shown : pad(shown, width);
}

function waitsOf({ waits, suspendedUntil, state }: SessionRow, now: number): string {
  if (suspendedUntil !== null) return `away, ${Math.max(0, Math.ceil((suspendedUntil - now) / 1000))} s left`;
  return waits ?? (state === 'established' ? '' : state);
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
