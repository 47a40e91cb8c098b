import { type ExplainedField, type Explanation, printable } from '@parlance/protocol/inspect';
import type { Style, Terminal } from '../base/terminal.js';
import { cut, pad, widthOf, wrap } from '../base/text-layout.js';

interface Row {
  readonly field: ExplainedField;
  readonly depth: number;
  /** The bytes that the offset of the field refers to. */
  readonly bytes: Uint8Array;
  /** Inside decoded bytes, which have offsets of their own. */
  readonly isInner: boolean;
  /** The fault is here, or the bytes could not be read. */
  readonly isFault: boolean;
}

/** Least width of the value and meaning columns together. */
const MIN_ROOM = 36;
const BYTES_PER_LINE = 8;
/** Most bytes to show of one field. */
const MAX_BYTES = 64;
const MAX_INDENT = 6;
const MAX_NAME = 32;

/**
 * The fields of an explained frame as a table, or as a list if the terminal is narrow.
 *
 * @param hex shows the bytes instead of the size.
 */
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
      // Skip fields that were begun but could not be read.
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

/** A row for each field; `undefined` if the terminal is too narrow. */
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
  const size = hex ? BYTES_PER_LINE * 3 - 1 : widest((cell) => cell.size, 4, 10);
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
      `  ${terminal.style('faint', `${'+'.padStart(offset)}  offset within the decoded bytes of the field above`)}`,
    );
  }
  return lines;
}

/** Lists each field on lines of its own. */
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
  // No thousands separators, so that a value can be searched for.
  return printable(
    typeof value === 'number' ? new Intl.NumberFormat('en-US', PLAIN).format(value) : String(value),
  );
}
const PLAIN = { useGrouping: false, maximumFractionDigits: 20 } as const;

/** Lines of bytes: none if the children show them, dots for a credential. */
function hexLines({ field, bytes }: Row): string[] {
  if (field.children.length > 0 && field.bytes === undefined) return [];
  const shown = Math.min(field.length, MAX_BYTES);
  const lines: string[] = [];
  for (let at = 0; at < shown; at += BYTES_PER_LINE) {
    const part = bytes.subarray(field.offset + at, field.offset + Math.min(at + BYTES_PER_LINE, shown));
    lines.push(
      Array.from(part, (byte) => (field.isSecret ? '··' : byte.toString(16).padStart(2, '0'))).join(' '),
    );
  }
  if (field.length > shown) lines.push(`… ${(field.length - shown).toLocaleString('en-US')} more`);
  return lines;
}
