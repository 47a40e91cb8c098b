import { type ExplainedField, type Explanation, printable } from '@parlance/protocol/inspect';
import type { Style, Terminal } from './terminal.js';
import { cut, pad, widthOf, wrap } from './text-layout.js';

/** The fields of an explained frame, a row each: where, how much, what, and what it means. */

interface Row {
  readonly field: ExplainedField;
  readonly depth: number;
  /** The bytes that the field's offset counts in. */
  readonly bytes: Uint8Array;
  /** Inside something that is coded, where offsets begin anew. */
  readonly isInner: boolean;
  /** What the frame is refused for, or what nobody could read. */
  readonly isFault: boolean;
}

/** Values and meanings need this much room beside the other columns. */
const MIN_ROOM = 36;
const BYTES_A_LINE = 8;
/** Bytes of one field that are shown. */
const MAX_BYTES = 64;
const MAX_INDENT = 6;
const MAX_NAME = 32;

/** @param hex shows the bytes beside the fields. */
export function fieldLines(
  terminal: Terminal,
  explanation: Explanation,
  width: number,
  hex: boolean,
): string[] {
  const rows = rowsOf(explanation);
  if (rows.length === 0) return [];
  return tabulate(terminal, rows, width, hex) ?? stack(terminal, rows, width, hex);
}

function rowsOf({ fields, bytes, error }: Explanation): Row[] {
  const rows: Row[] = [];
  const visit = (each: readonly ExplainedField[], depth: number, counted: Uint8Array, isInner: boolean) => {
    for (const field of each) {
      // What was begun and could not be read.
      if (field.length === 0 && field.children.length === 0 && field.value === undefined) continue;
      const isFault = !isInner && field.offset === error?.offset && field.children.length === 0;
      rows.push({ field, depth, bytes: counted, isInner, isFault });
      visit(field.children, depth + 1, field.bytes ?? counted, isInner || field.bytes !== undefined);
    }
  };
  visit(fields, 0, bytes, false);
  const offset = Math.max(0, ...fields.map((field) => field.offset + field.length));
  if (error !== undefined && offset < bytes.length) {
    const field = { name: 'not read', offset, length: bytes.length - offset, children: [] };
    rows.push({ field, depth: 0, bytes, isInner: false, isFault: true });
  }
  return rows;
}

/** Columns, where there is room for them. */
function tabulate(
  terminal: Terminal,
  rows: readonly Row[],
  width: number,
  hex: boolean,
): string[] | undefined {
  const cells = rows.map((row) => ({
    offset: offsetOf(row),
    size: String(row.field.length),
    name: cut('  '.repeat(Math.min(row.depth, MAX_INDENT)) + printable(row.field.name), MAX_NAME),
    value: shownValue(row.field),
    note: printable(row.field.note ?? ''),
  }));
  const widest = (of: (cell: (typeof cells)[number]) => string, least: number, most: number) =>
    Math.min(most, Math.max(least, ...cells.map((cell) => widthOf(of(cell)))));
  const offset = widest((cell) => cell.offset, 6, 10);
  const size = hex ? BYTES_A_LINE * 3 - 1 : widest((cell) => cell.size, 4, 10);
  const name = widest((cell) => cell.name, 5, MAX_NAME);
  const left = width - (2 + offset + 2 + size + 2 + name + 2);
  if (left < MIN_ROOM) return undefined;
  const value = widest((cell) => cell.value, 5, Math.max(12, Math.min(40, Math.floor(left / 2))));
  const note = Math.max(12, left - value - 2);

  const line = (texts: readonly string[], styles: readonly (Style | undefined)[]): string => {
    const widths = [offset, size, name, value, note];
    const last = texts.findLastIndex((text) => text !== '');
    const shown = texts.slice(0, last + 1).map((text, i) => {
      const isNumber = i === 0 || (i === 1 && !hex);
      const padded = isNumber
        ? text.padStart(widths[i] as number)
        : i === last
          ? text
          : pad(text, widths[i] as number);
      const style = styles[i];
      return style === undefined ? padded : terminal.style(style, padded);
    });
    return `  ${shown.join('  ')}`;
  };

  const lines = [
    line(['offset', hex ? 'bytes' : 'size', 'field', 'value', 'meaning'], new Array(5).fill('faint')),
  ];
  for (const [i, row] of rows.entries()) {
    const cell = cells[i] as (typeof cells)[number];
    const columns = [
      [cell.offset],
      hex ? hexLines(row) : [cell.size],
      [cell.name],
      wrap(cell.value, value),
      wrap(cell.note, note),
    ];
    const styles = row.isFault
      ? (new Array(5).fill('bad') as Style[])
      : (['faint', 'faint', 'name', 'value', undefined] as const);
    const height = Math.max(...columns.map(({ length }) => length));
    for (let at = 0; at < height; at++)
      lines.push(
        line(
          columns.map((column) => column[at] ?? ''),
          styles,
        ),
      );
  }
  if (rows.some(({ isInner }) => isInner)) {
    lines.push(
      `  ${terminal.style('faint', `${'+'.padStart(offset)}  counted in what the field above stands for`)}`,
    );
  }
  return lines;
}

/** One field below the other. */
function stack(terminal: Terminal, rows: readonly Row[], width: number, hex: boolean): string[] {
  const { style } = terminal;
  return rows.flatMap((row) => {
    const indent = '  '.repeat(1 + Math.min(row.depth, MAX_INDENT));
    const inner = `${indent}  `;
    const room = Math.max(16, width - inner.length);
    const below = (texts: readonly string[], as: Style | undefined) =>
      texts.map((text) => inner + (as === undefined ? text : style(as, text)));
    const value = shownValue(row.field);
    const note = printable(row.field.note ?? '');
    const [place, name] = [offsetOf(row), printable(row.field.name)];
    const isShort = indent.length + place.length + widthOf(name) + widthOf(value) + 3 <= width;
    const head = `${indent}${style('faint', place)} ${style(row.isFault ? 'bad' : 'name', name)}`;
    return [
      isShort && value !== '' ? `${head}  ${style('value', value)}` : head,
      ...below(isShort ? [] : wrap(value, room), 'value'),
      ...below(hex ? hexLines(row) : [], 'faint'),
      ...below(note === '' ? [] : wrap(note, room), undefined),
    ];
  });
}

function offsetOf({ isInner, field }: Row): string {
  return `${isInner ? '+' : ''}${field.offset}`;
}

function shownValue({ value }: ExplainedField): string {
  if (value === undefined) return '';
  // Digits as they are, so that a value can be searched for.
  return printable(
    typeof value === 'number' ? new Intl.NumberFormat('en-US', PLAIN).format(value) : String(value),
  );
}
const PLAIN = { useGrouping: false, maximumFractionDigits: 20 } as const;

/** Bytes in lines; a field whose children show them shows none, and a credential shows dots. */
function hexLines({ field, bytes }: Row): string[] {
  if (field.children.length > 0 && field.bytes === undefined) return [];
  const shown = Math.min(field.length, MAX_BYTES);
  const lines: string[] = [];
  for (let at = 0; at < shown; at += BYTES_A_LINE) {
    const part = bytes.subarray(field.offset + at, field.offset + Math.min(at + BYTES_A_LINE, shown));
    lines.push(
      Array.from(part, (byte) => (field.isSecret ? '··' : byte.toString(16).padStart(2, '0'))).join(' '),
    );
  }
  if (field.length > shown) lines.push(`… ${(field.length - shown).toLocaleString('en-US')} more`);
  return lines;
}
