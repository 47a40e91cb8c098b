import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

/** Checks the links of Markdown files to other files of the repository and to headings. */

/** The Markdown files of the repository that people read. */
export function markdownFiles(): string[] {
  return execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '--', '*.md'], {
    encoding: 'utf8',
  })
    .split('\n')
    .filter((file) => file !== '' && existsSync(file));
}

/** Every link of `files` that leads nowhere, as `file:line: target`. */
export function brokenLinks(files: readonly string[]): string[] {
  return files.flatMap((file) => {
    const broken: string[] = [];
    for (const [at, line] of withoutCode(readFileSync(file, 'utf8')).entries()) {
      for (const [, target = ''] of line.matchAll(/\]\(([^()\s]+(?:\([^()\s]*\))?)\)/g)) {
        if (/^[a-z+]+:/.test(target) || leads(file, target)) continue;
        broken.push(`${file}:${at + 1}: ${target} leads nowhere`);
      }
    }
    return broken;
  });
}

/**
 * Every path in backquotes of `file`, and every folder in its drawings, that no file or folder of the repository has, as a whole or
 * as its end.
 */
export function brokenPaths(file: string): string[] {
  const listed = ['ls-files', '--cached', '--others', '--exclude-standard'];
  const tracked = execFileSync('git', listed, { encoding: 'utf8' }).split('\n').filter(existsSync);
  const exists = (path: string): boolean => {
    const text = path.replaceAll(/[.+]/g, '\\$&').replaceAll('*', '[^/]*');
    const pattern = new RegExp(`(^|/)${text}${path.endsWith('/') ? '' : '($|/)'}`);
    return tracked.some((each) => pattern.test(each));
  };
  let isDrawing = false;
  return readFileSync(file, 'utf8')
    .split('\n')
    .flatMap((line, at) => {
      if (line.startsWith('```')) isDrawing = !isDrawing;
      const paths = [...line.matchAll(isDrawing ? FOLDER : QUOTED)].map(([, path = '']) => path);
      return paths
        .filter((path) => PATH.test(path) && !BUILT.test(path) && !PACKAGE.test(path) && !exists(path))
        .map((path) => `${file}:${at + 1}: there is no ${path}`);
    });
}
const QUOTED = /`([\w@.*-][\w@./*-]*)`/g;
const FOLDER = /(?<=^|\s)([\w-]+\/)(?=\s|$)/g;
/** Looks like a path of the repository. */
const PATH = /\/|\.(?:ts|tsx|mjs|json|ya?ml|md)$/;
const BUILT = /(^|\/)dist(\/|$)/;
const PACKAGE = /^@[\w-]+\/[\w-]+$/;

function leads(file: string, target: string): boolean {
  const [path = '', anchor] = target.split('#');
  const found = path === '' ? file : join(dirname(file), path);
  if (!existsSync(found) || relative('.', found).startsWith('..')) return false;
  if (anchor === undefined) return true;
  return !statSync(found).isDirectory() && found.endsWith('.md') && anchorsOf(found).has(anchor);
}

const known = new Map<string, ReadonlySet<string>>();

/** The anchors that GitHub gives the headings of a file. */
export function anchorsOf(file: string): ReadonlySet<string> {
  let anchors = known.get(file);
  if (anchors === undefined) {
    const counts = new Map<string, number>();
    anchors = new Set(
      withoutCode(readFileSync(file, 'utf8'))
        .flatMap((line) => /^#{1,6} (.+)$/.exec(line)?.slice(1) ?? [])
        .map((heading) => {
          const anchor = anchorOf(heading);
          const count = counts.get(anchor) ?? 0;
          counts.set(anchor, count + 1);
          return count === 0 ? anchor : `${anchor}-${count}`;
        }),
    );
    known.set(file, anchors);
  }
  return anchors;
}

export function anchorOf(heading: string): string {
  const text = heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1');
  return text
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');
}

/** The targets of links and pictures of a document that lead to other files of the repository. */
export function linkTargets(text: string): string[] {
  const targets: string[] = [];
  mapTargets(text, (target) => {
    targets.push(target);
    return target;
  });
  return targets;
}

/**
 * A document with other targets of its links and pictures. Those in code, to other sites and within the page stay as they are.
 *
 * @param change returns a target; `undefined` keeps only the text of a link, and a picture as it is.
 */
export function mapTargets(text: string, change: (target: string) => string | undefined): string {
  return text
    .replaceAll(CODE_OR_TARGET, (all, ...found) => {
      const { begin = '', target } = found.at(-1) as Readonly<Record<string, string | undefined>>;
      if (target === undefined || /^(?:[a-z+]+:|#)/.test(target)) return all;
      return begin + (change(target) ?? (begin === '](' ? NONE : target));
    })
    .replaceAll(LINK_TO_NONE, '$1');
}
const NONE = '\0';
const LINK_TO_NONE = /!?\[((?:[^[\]]|\[[^[\]]*\])*)\]\(\0\)/g;
const CODE_OR_TARGET =
  /^[ \t]*(```|~~~)[\s\S]*?^[ \t]*\1|(?<!`)(`+)(?!`)(?:(?!\n\n)[\s\S])+?(?<!`)\2(?!`)|(?<begin>\]\(|<(?:img|source)[^>]*? (?:src|srcset)=")(?<target>[^()\s"]+(?:\([^()\s]*\))?)/gm;

/** The lines of a document, empty where they are code. */
function withoutCode(text: string): string[] {
  let isCode = false;
  return text.split('\n').map((line) => {
    if (/^\s*(```|~~~)/.test(line)) {
      isCode = !isCode;
      return '';
    }
    return isCode ? '' : line.replaceAll(/`[^`]*`/g, (code) => (/\]\(/.test(code) ? '' : code));
  });
}
