import { execFileSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { basename, dirname, extname, join, relative } from 'node:path/posix';
import { linkTargets, mapTargets } from '../../scripts/docs/links.js';

/** The pages of the site: every file of the repository that a reader reaches from its README by links. */

export interface Page {
  /** From the root of the repository; a folder if the page lists one. */
  readonly file: string;
  /** From the root of the site, with `/` between folders. */
  readonly path: string;
  readonly kind: 'page' | 'file' | 'folder' | 'picture';
}

const ROOT = 'README.md';

/** The pages by file. Paths are from the root of the repository, which is the working directory. */
export function findPages(): ReadonlyMap<string, Page> {
  const tracked = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
    encoding: 'utf8',
  }).split('\n');
  const pages = new Map<string, Page>();
  const taken = new Map<string, string>();
  const open = [ROOT];
  for (let file = open.pop(); file !== undefined; file = open.pop()) {
    if (pages.has(file)) continue;
    const kind = kindOf(file);
    const path = pathOf(file, kind);
    const other = taken.get(path);
    if (other !== undefined) throw new Error(`${other} and ${file} would both be ${path}`);
    taken.set(path, file);
    pages.set(file, { file, path, kind });
    if (kind === 'folder') open.push(...tracked.filter((each) => isBelow(each, file)));
    if (kind !== 'page') continue;
    const targets = linkTargets(readFileSync(file, 'utf8')).map((to) => targetOf(file, to));
    open.push(...targets.filter((to) => isOfReaders(file) || kindOf(to) === 'page'));
  }
  return pages;
}

/** The page as VitePress and readers of Markdown get it. */
export function contentOf(page: Page, pages: ReadonlyMap<string, Page>): string | Buffer {
  if (page.kind === 'picture') return readFileSync(page.file);
  if (page.kind === 'folder') {
    const files = [...pages.values()].filter(
      ({ file, kind }) => kind !== 'folder' && isBelow(file, page.file),
    );
    const links = files.map(
      ({ file, path }) => `- [${relative(page.file, file)}](${between(page.path, path)})`,
    );
    return `# ${page.file}\n\n${links.sort().join('\n')}\n`;
  }
  const text = readFileSync(page.file, 'utf8');
  if (page.kind === 'file') return `# ${page.file}\n\n${FENCE}text\n${text.trimEnd()}\n${FENCE}\n`;
  return mapTargets(text, (target) => {
    const [, anchor = ''] = /(#.*)$/.exec(target) ?? [];
    const to = pages.get(targetOf(page.file, target));
    return to && between(page.path, to.path) + anchor;
  });
}

/** The first heading. */
export function titleOf({ file, kind }: Page): string {
  return (kind === 'page' ? /^# (.+)$/m.exec(readFileSync(file, 'utf8'))?.[1] : undefined) ?? file;
}

/** The path of a file or folder that a link of `file` names. */
export function targetOf(file: string, target: string): string {
  return join(dirname(file), target.replace(/#.*$/, '')).replace(/\/$/, '');
}

const FENCE = '~~~~~~';
/** Not what only people who work on the project read. Takes a path of a page as well. */
const isOfReaders = (file: string): boolean =>
  !/^(?:changelog|contributing|scripts\/|bench\/|conformance\/coverage|packages\/[^/]+\/src\/)/i.test(file);

/** Whether the search finds a page. */
export const isSearched = (path: string): boolean => isOfReaders(path) && !path.startsWith('files/');

const isBelow = (file: string, folder: string): boolean => file.startsWith(`${folder}/`);

function kindOf(file: string): Page['kind'] {
  if (statSync(file).isDirectory()) return 'folder';
  const extension = extname(file);
  if (extension === '.md') return 'page';
  return /^\.(?:png|svg|webp)$/.test(extension) ? 'picture' : 'file';
}

function pathOf(file: string, kind: Page['kind']): string {
  if (kind === 'picture') return `media/${basename(file)}`;
  if (kind !== 'page') return `files/${file}${kind === 'folder' ? '/index' : ''}.md`;
  if (file === ROOT) return 'introduction.md';
  if (file === 'docs/README.md') return 'documents.md';
  return file
    .replace(/^docs\//, '')
    .replace(/^packages\/([^/]+)\/README\.md$/, 'packages/$1.md')
    .replace(/README\.md$/, 'index.md')
    .toLowerCase();
}

const between = (from: string, to: string): string => {
  const path = relative(dirname(from), to);
  return path.startsWith('.') ? path : `./${path}`;
};
