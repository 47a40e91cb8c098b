import { readdirSync, readFileSync } from 'node:fs';
import { anchorOf } from './links.js';

/** The pages about design: what is so today, why, and what was refused. */

const FOLDER = 'docs/design';

/** Words of a page, so that it can be read in one sitting. */
export const MAX_WORDS = 1_800;

export function designPages(): string[] {
  return readdirSync(FOLDER)
    .filter((name) => name.endsWith('.md'))
    .map((name) => `${FOLDER}/${name}`);
}

/** The words of a page, without those of its generated tables. */
export function wordsIn(text: string): number {
  const written = text.replaceAll(/<!-- begin (.+?) -->\n[\s\S]*?<!-- end \1 -->/g, '');
  return written.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length;
}

/** Why a page is too long, in a list; an empty one if it is not. */
export function tooLong(file: string, text: string): string[] {
  const words = wordsIn(text);
  return words > MAX_WORDS ? [`${file}: ${words} words, at most ${MAX_WORDS} are allowed`] : [];
}

/** Where each former decision record is now: its number, and a link to a section. */
export function sectionsOfRecords(pages: readonly (readonly [file: string, text: string])[]): string[] {
  const rows = new Map<number, string>();
  for (const [file, text] of pages) {
    const page = headingIn(text, '# ');
    for (const section of text.split(/^(?=## )/m).slice(1)) {
      const heading = headingIn(section, '## ');
      for (const number of recordsIn(section)) {
        if (rows.has(number)) throw new Error(`${file}: record ${number} has a section already`);
        const target = `${file.slice(file.lastIndexOf('/') + 1)}#${anchorOf(heading)}`;
        rows.set(number, `| ${number} | [${page}: ${heading}](${target}) |`);
      }
    }
  }
  return [...rows].sort(([a], [b]) => a - b).map(([, row]) => row);
}

/** Of the docs: `<!-- begin records -->`. */
export function recordTable(): readonly (readonly [string, string])[] {
  const rows = sectionsOfRecords(designPages().map((file) => [file, readFileSync(file, 'utf8')] as const));
  return [['records', ['| record | is now |', '| --- | --- |', ...rows].join('\n')]];
}

const headingIn = (text: string, level: string): string =>
  text
    .split('\n')
    .find((line) => line.startsWith(level))
    ?.slice(level.length) ?? '';

const recordsIn = (section: string): number[] =>
  /^Records: ([\d, ]+)\.$/m.exec(section)?.[1]?.split(', ').map(Number) ?? [];
