import { readFileSync } from 'node:fs';
import { anchorOf } from './links.js';
import { table } from './markdown.js';

/** The part of the specification that a minimal client needs: the sections whose text begins with the mark. */

const MARK = '*Core.*';
const FOLDER = 'docs/protocol';
const PAGES = ['README', 'websocket', 'control', 'session', 'link', 'credit', 'resume', 'errors'];

/** A row for each page, in the order in which they are read. A mark holds up to the next heading. */
export function coreTable(): string {
  const rows = PAGES.map((page) => {
    const text = readFileSync(`${FOLDER}/${page}.md`, 'utf8').replaceAll(/^```[\s\S]*?^```$/gm, '');
    const pieces = text.split(/^(#+ .+)$/m);
    const title = (pieces[1] as string).replace(/^# /, '');
    const links: string[] = [];
    let core = '';
    for (let at = 1; at < pieces.length; at += 2) {
      const [heading, body] = [pieces[at] as string, (pieces[at + 1] as string).trim()];
      if (!body.startsWith(MARK)) continue;
      const name = heading.replace(/^#+ /, '');
      links.push(heading.startsWith('# ') ? 'its beginning' : `[${name}](${page}.md#${anchorOf(name)})`);
      core += ` ${body.slice(MARK.length)}`;
    }
    return { page: `[${title}](${page}.md)`, links: links.join(', '), ...extent(core) };
  });
  const total = (of: (row: (typeof rows)[number]) => number) => rows.reduce((sum, row) => sum + of(row), 0);
  return table(
    ['page', 'sections', 'words, about', 'requirements'],
    [
      ...rows.map(({ page, links, words, musts }) => [page, links, about(words), String(musts)]),
      ['all', '', about(total(({ words }) => words)), String(total(({ musts }) => musts))],
    ],
  );
}

function extent(text: string): { readonly words: number; readonly musts: number } {
  return { words: text.match(/\S+/g)?.length ?? 0, musts: text.match(/\bMUST\b/g)?.length ?? 0 };
}

/** Rounded, so that the table does not change with each sentence. */
const about = (words: number): string => (Math.round(words / 100) * 100).toLocaleString('en-US');
