import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Figures } from './measure.js';

/** The tables of the page. */

export const PAGE = 'docs/compare.md';
const SECTION = /(?<=<!-- begin comparison -->\n)[\s\S]*?(?=\n<!-- end comparison -->)/;

const kilobytes = (bytes: number) => `${(bytes / 1000).toFixed(1)} kB`;
const row = (cells: readonly (string | number)[]) => `| ${cells.join(' | ')} |`;

/** @param folder of the packages. */
export function tablesOf(figures: readonly Figures[], folder: string, centrifugo: string): string {
  const version = (name: string) =>
    JSON.parse(readFileSync(join(folder, 'node_modules', name, 'package.json'), 'utf8')).version;
  return [
    '| | lines | page | one answer, ten | cut | reload | `kill -9` | stop |',
    '|---|---|---|---|---|---|---|---|',
    ...figures.map(({ rival, lines, page, bytes, cut, reload, kill, stop }) =>
      row([rival.name, lines, kilobytes(page), bytes.map(kilobytes).join(', '), cut, reload, kill, stop]),
    ),
    '',
    '| | version | set up | as recommended in |',
    '|---|---|---|---|',
    ...figures.map(({ rival: { name, packages, configuration, page, needs } }) => {
      const versions = packages.map((each) => `\`${each}\` ${version(each)}`);
      if (needs === 'centrifugo') versions.push(centrifugo);
      return row([name, versions.join(', ') || 'this one', configuration, `[${page[0]}](${page[1]})`]);
    }),
  ].join('\n');
}

export function withTables(page: string, tables: string): string {
  if (!SECTION.test(page)) throw new Error(`${PAGE} has no section "comparison"`);
  return page.replace(SECTION, () => tables);
}

/** Bytes depend on how they are cut into packets and on each change of ours, and are left out. */
const rowsOf = (tables: string) =>
  tables
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .map((line) => line.replaceAll(/\d[\d.]* kB/g, 'kB'));

/** Rows of `tables` that the page does not have. */
export function missingIn(page: string, tables: string): readonly string[] {
  const stated = new Set(rowsOf(SECTION.exec(page)?.[0] ?? ''));
  return rowsOf(tables).filter((line) => !stated.has(line));
}
