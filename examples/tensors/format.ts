import { bytes, number as count } from '../../packages/ui/src/shared/format.js';

export { bytes, count };

export const isTerminal = process.stdout.isTTY === true;
const hasColors = isTerminal && process.env['NO_COLOR'] === undefined;
const COLORS = { bold: 1, dim: 2, red: 31, green: 32, cyan: 36 } as const;

/** @param plain replaces each character if there are no colors. @default the text itself */
export function paint(color: keyof typeof COLORS, text: string, plain?: string): string {
  if (hasColors) return `\u001b[${COLORS[color]}m${text}\u001b[0m`;
  return plain === undefined ? text : plain.repeat(text.length);
}

export function duration(ms: number): string {
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  return `${(ms / 1000).toFixed(1)} s`;
}

export function rate(count: number, ms: number): string {
  return `${bytes(ms === 0 ? 0 : (count / ms) * 1000)}/s`;
}

/** Pads columns to their widest cell. @param right indices of right-aligned columns. */
export function columns(rows: readonly (readonly string[])[], right: readonly number[] = []): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) => {
    const cells = row.map((cell, column) => {
      const width = widths[column] ?? 0;
      return right.includes(column) ? cell.padStart(width) : cell.padEnd(width);
    });
    return `  ${cells.join('  ').trimEnd()}`;
  });
}
