/**
 * Writes packages/protocol/src/tokenizer/unicode.gen.ts: the class of every code point, from the Unicode data
 * of the running Node, and the exceptions of the two implementations that define token IDs.
 *
 * node --import tsx scripts/generate-unicode-table.ts
 */
import { writeFileSync } from 'node:fs';
import {
  classesOfJavaScript,
  classesOfNode,
  classesOfTiktoken,
} from '../packages/protocol/src/tokenizer/testing/unicode-classes.js';

const TARGET = new URL('../packages/protocol/src/tokenizer/unicode.gen.ts', import.meta.url);

function runs(letters: readonly string[]): [letter: string, first: number, last: number][] {
  const found: [string, number, number][] = [];
  for (const [codePoint, letter] of letters.entries()) {
    const run = found.at(-1);
    if (run !== undefined && run[0] === letter && run[2] === codePoint - 1) run[2] = codePoint;
    else found.push([letter, codePoint, codePoint]);
  }
  return found;
}

function differences(letters: readonly string[], from: readonly string[]): string {
  const rows = runs(letters.map((letter, codePoint) => (letter === from[codePoint] ? '' : letter)))
    .filter(([letter]) => letter !== '')
    .map(([letter, first, last]) => `  ['${letter}', 0x${first.toString(16)}, 0x${last.toString(16)}],\n`);
  return `[\n${rows.join('')}]`;
}

function main(): void {
  const node = classesOfNode();
  const encoded = runs(node)
    .map(([letter, first, last]) => letter + (last === first ? '' : (last - first + 1).toString(36)))
    .join('');
  const lines = encoded.match(/.{1,100}(?![0-9a-z])/g) ?? [];
  writeFileSync(
    TARGET,
    `// Written by scripts/generate-unicode-table.ts; do not edit.

/** The Unicode version of the table. */
export const UNICODE_VERSION = '${process.versions.unicode}';

/** Runs of code points from 0 on: a class letter of unicode.ts, and the run's length in base 36 unless 1. */
export const UNICODE_RUNS =
${lines.map((line) => `  '${line}'`).join(' +\n')};

type Exceptions = readonly (readonly [letter: string, first: number, last: number])[];

/** Where tiktoken's regular expressions see another class. */
export const RUST_EXCEPTIONS: Exceptions = ${differences(classesOfTiktoken(), node)};

/** Where JavaScript's \`\\s\` differs from the property White_Space. */
export const JAVASCRIPT_EXCEPTIONS: Exceptions = ${differences(classesOfJavaScript(node), node)};
`,
  );
}

main();
