import { readFileSync } from 'node:fs';
import { linkTargets } from '../../scripts/docs/links.js';
import { type Page, targetOf, titleOf } from './pages.js';

/** The sections of the site, in the order of the lists that the documents have of themselves. */

export interface Entry {
  readonly title: string;
  readonly page: Page;
}

export interface Section {
  readonly title: string;
  readonly entries: readonly Entry[];
}

const DOCUMENTS = 'docs/README.md';

/** The sections of the main part: the rows of `docs/README.md`. */
export function mainSections(pages: ReadonlyMap<string, Page>): Section[] {
  const seen = new Set<string>();
  const rows = [...readFileSync(DOCUMENTS, 'utf8').matchAll(/^\| \*\*(.+?)\*\* \| (.+) \|$/gm)];
  const sections = rows.map(([, title = '', links = '']) => ({
    title: capitalized(title),
    entries: entriesOf(DOCUMENTS, links, pages).filter(({ page }) => {
      const isNew = !seen.has(page.path);
      seen.add(page.path);
      return isNew;
    }),
  }));
  const [start, ...others] = sections;
  const introduction = pages.get('README.md');
  if (start === undefined || introduction === undefined) throw new Error(`${DOCUMENTS} has no rows`);
  return [
    { ...start, entries: [{ title: 'Introduction', page: introduction }, ...start.entries] },
    ...others.filter(({ entries }) => entries.length > 0),
  ];
}

/** The pages of a folder, in the order of its README, with the names that it gives them. */
export function folderSection(title: string, folder: string, pages: ReadonlyMap<string, Page>): Section {
  const readme = `${folder}/README.md`;
  const page = pages.get(readme);
  if (page === undefined) throw new Error(`the site has no ${readme}`);
  const seen = new Set([page]);
  const text = readFileSync(readme, 'utf8');
  const lines = text.split('\n').filter((line) => /^(?:\| |- )\[/.test(line));
  const entries = lines.flatMap((line) => {
    const [entry] = entriesOf(readme, line, pages, true);
    if (entry === undefined || seen.has(entry.page) || !entry.page.file.startsWith(`${folder}/`)) return [];
    seen.add(entry.page);
    return [entry];
  });
  const others = [...pages.values()].filter((each) => each.file.startsWith(`${folder}/`) && !seen.has(each));
  return {
    title,
    entries: [
      { title: 'Contents', page },
      ...entries,
      ...others.flatMap((each) => (each.kind === 'page' ? [{ title: titleOf(each), page: each }] : [])),
    ],
  };
}

function entriesOf(file: string, text: string, pages: ReadonlyMap<string, Page>, byLabel = false): Entry[] {
  const labels = [...text.matchAll(/\[([^\]]+)\]\(/g)].map(([, label = '']) => label);
  return linkTargets(text).flatMap((target, at) => {
    const page = pages.get(targetOf(file, target));
    if (page === undefined) return [];
    return [{ title: plain(byLabel ? (labels[at] ?? '') : titleOf(page)), page }];
  });
}

const plain = (markdown: string): string => markdown.replaceAll('`', '');
const capitalized = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
