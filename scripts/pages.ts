import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

/** The pages that users read, their bounds in words, and their sentences. */

/** For all pages of users together. */
export const MAX_WORDS = 45_000;
/** For a sentence of a page of users; text in backquotes counts as one word. */
export const MAX_SENTENCE = 30;
/** For the lines of the README. */
export const MAX_README_LINES = 150;

/** For a page by itself. The others share {@link MAX_WORDS}. */
export const BOUNDS: Readonly<Record<string, number>> = {
  'docs/MEASUREMENTS.md': 2_500,
  'docs/CLUSTER.md': 3_000,
  'CONTRIBUTING.md': 1_500,
};

/** Folders of pages that users read, without those below: the specification and the reasons are for others. */
const FOLDERS = ['docs', 'docs/start', 'docs/guide', 'docs/operate', 'docs/tools'];

/** An old address of the specification. */
const NOT_OF_USERS = new Set(['docs/PROTOCOL.md']);

export function userPages(): string[] {
  const inFolders = FOLDERS.flatMap((folder) =>
    readdirSync(folder)
      .filter((name) => name.endsWith('.md'))
      .map((name) => join(folder, name)),
  );
  const ofPackages = readdirSync('packages').map((name) => join('packages', name, 'README.md'));
  return ['README.md', ...inFolders, ...ofPackages.filter((file) => existsSync(file))].filter(
    (file) => !NOT_OF_USERS.has(file),
  );
}

export interface Sentence {
  /** From 1. */
  readonly line: number;
  readonly words: number;
  readonly text: string;
}

/**
 * The sentences of a page: of its paragraphs, items of lists (also those with dots between them), headings and cells of tables. Code and
 * generated text are left out.
 */
export function sentencesOf(text: string): Sentence[] {
  return blocksOf(text).flatMap((block) =>
    sentencesIn(block.text).map((sentence) => ({
      line: block.line,
      words: sentence.split(' ').filter((word) => /[\p{L}\p{N}]/u.test(word)).length,
      text: sentence,
    })),
  );
}

interface Block {
  readonly line: number;
  readonly text: string;
}

function blocksOf(text: string): Block[] {
  const blocks: Block[] = [];
  let open: { line: number; lines: string[] } | undefined;
  let isCode = false;
  let generated: string | undefined;
  const end = () => {
    if (open !== undefined) blocks.push({ line: open.line, text: open.lines.join(' ') });
    open = undefined;
  };
  for (const [index, line] of text.split('\n').entries()) {
    const at = index + 1;
    if (generated !== undefined) {
      if (line.includes(`<!-- end ${generated} -->`)) generated = undefined;
      continue;
    }
    const begin = /<!-- begin (.+?) -->/.exec(line)?.[1];
    const isFence = /^\s*(?:>\s*)?(?:```|~~~)/.test(line);
    const isBlank = /^\s*(?:>\s*)?$/.test(line);
    if (begin !== undefined || isFence || isCode || isBlank) end();
    if (begin !== undefined) generated = begin;
    if (isFence) isCode = !isCode;
    if (begin !== undefined || isFence || isCode || isBlank) continue;
    if (/^\s*\|/.test(line)) {
      end();
      for (const cell of line.split(/(?<!\\)\|/)) blocks.push({ line: at, text: cell });
      continue;
    }
    if (/^\s*(?:[-*] |\d+\. |#)/.test(line)) end();
    open ??= { line: at, lines: [] };
    open.lines.push(line);
    if (line.startsWith('#')) end();
  }
  end();
  return blocks;
}

function sentencesIn(text: string): string[] {
  const plain = text
    .replaceAll(/``[^`]+``|`[^`]+`/g, 'code')
    .replaceAll(/!?\[([^\]]*)\]\([^()\s]*(?:\([^()\s]*\))?\)/g, '$1')
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll(/\*\*|__/g, '')
    .replaceAll(/\s+/g, ' ')
    .trim();
  return plain
    .split(/ · |(?<=[.!?]["”)]?) (?=["“(]?(?:[\p{Lu}\p{N}]|code\b))/u)
    .filter((sentence) => sentence !== '');
}

/** Words that a page explains, or links to what explains them, where it has them first. */
export const TERMS: Readonly<Record<string, RegExp>> = {
  principal: /\bprincipals?\b/i,
  codec: /\bcodecs?\b/i,
  engine: /\bengines?\b/i,
  durable: /\bdurable\b(?! Streams)/i,
  drain: /\bdrain(?:s|ed|ing)?\b/i,
};

/** Terms that a page neither has in a link nor emphasizes, as a page does with a word that it explains, where it has them first. */
export function unexplained(text: string): { line: number; term: string }[] {
  const blank = (part: string) => part.replaceAll(/[^\n]/g, ' ');
  const plain = text
    .replaceAll(/<!-- begin (.+?) -->[\s\S]*?<!-- end \1 -->/g, blank)
    .replaceAll(/^\s*(?:```|~~~)[\s\S]*?^\s*(?:```|~~~)$/gm, blank)
    .replaceAll(/`[^`]+`|^#.*$/gm, blank)
    .replaceAll(/(?<=\])\([^()\s]*\)/g, blank);
  const explained = [...plain.matchAll(/\[[^\]]*\]|\*{1,2}[^*]+\*{1,2}/g)];
  return Object.entries(TERMS).flatMap(([term, words]) => {
    const at = words.exec(plain)?.index;
    if (at === undefined) return [];
    if (explained.some(({ index, 0: { length } }) => index <= at && at < index + length)) return [];
    return [{ line: plain.slice(0, at).split('\n').length, term }];
  });
}
