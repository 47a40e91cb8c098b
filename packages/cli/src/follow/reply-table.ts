import type { ReplyInfo } from '@parlance/protocol';
import { printable } from '@parlance/protocol/inspect';
import type { Style, Terminal } from '../base/terminal.js';
import { cut, pad, widthOf, wrap } from '../base/text-layout.js';

/** Least width of the column of names. */
const MIN_NAME = 8;
const GAP = '  ';
const HEADS = ['reply', 'state', 'parts', 'started', 'kept until'] as const;
const STYLES: Readonly<Record<ReplyInfo['state'], Style>> = {
  running: 'notice',
  complete: 'good',
  failed: 'bad',
};

interface Row {
  /** As many as {@link HEADS}. */
  readonly cells: readonly string[];
  readonly name: string;
  readonly state: ReplyInfo['state'];
}

/** Kept replies as a table, or as a list if the terminal is narrow. */
export function replyLines(terminal: Terminal, replies: readonly ReplyInfo[], now: Date): string[] {
  if (replies.length === 0) return [];
  const time = (ms: number) => timeOf(new Date(ms), now, terminal.isInteractive);
  const rows = replies.map(({ id, name, isOwn, state, parts, startedAt, expiresAt }): Row => {
    const until = expiresAt === undefined ? 'its end' : time(expiresAt);
    const cells = [printable(id), state, parts.toLocaleString('en-US'), time(startedAt), until];
    return { cells, name: isOwn ? printable(name ?? '') : '(shared)', state };
  });
  return tabulate(terminal, rows) ?? stack(terminal, rows);
}

/** `undefined` if the terminal is too narrow. */
function tabulate(terminal: Terminal, rows: readonly Row[]): string[] | undefined {
  const widths = HEADS.map((head, i) =>
    Math.max(widthOf(head), ...rows.map(({ cells }) => widthOf(cells[i] ?? ''))),
  );
  const left = terminal.columns - widths.reduce((sum, width) => sum + width + GAP.length, 0);
  if (left < MIN_NAME) return undefined;
  const line = (cells: readonly string[], name: string, style: (text: string, i: number) => string) =>
    [...cells.map((cell, i) => style(pad(cell, widths[i] ?? 0), i)), cut(name, left)].join(GAP).trimEnd();
  return [
    terminal.style(
      'faint',
      line(HEADS, 'name', (text) => text),
    ),
    ...rows.map(({ cells, name, state }) =>
      line(cells, name, (text, i) => (i === 1 ? terminal.style(STYLES[state], text) : text)),
    ),
  ];
}

function stack(terminal: Terminal, rows: readonly Row[]): string[] {
  return rows.flatMap(({ cells: [id = '', state, parts, started, until], name }) => [
    cut(id, terminal.columns),
    ...[name, `${state}, ${parts} parts`, `started ${started}`, `kept until ${until}`]
      .filter((text) => text !== '')
      .flatMap((text) => wrap(text, terminal.columns - GAP.length))
      .map((text) => GAP + text),
  ]);
}

/** For people, the time of day or, of another day, the date too; for programs, a timestamp. */
function timeOf(date: Date, now: Date, isForPeople: boolean): string {
  if (!isForPeople) return date.toISOString();
  const two = (value: number) => String(value).padStart(2, '0');
  const day = `${two(date.getMonth() + 1)}-${two(date.getDate())} `;
  const time = `${two(date.getHours())}:${two(date.getMinutes())}`;
  return date.toDateString() === now.toDateString() ? `${time}:${two(date.getSeconds())}` : day + time;
}
