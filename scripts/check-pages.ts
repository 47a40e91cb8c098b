import { readFileSync } from 'node:fs';
import { wordsIn } from './docs/design.js';
import {
  BOUNDS,
  MAX_README_LINES,
  MAX_SENTENCE,
  MAX_WORDS,
  sentencesOf,
  unexplained,
  userPages,
} from './pages.js';

/**
 * Counts the words of the pages that users read. Fails if there are too many, if a sentence is too long, or if a page does not explain a
 * term where it has it first.
 */

const faults: string[] = [];
const read = (file: string) => readFileSync(file, 'utf8');

let words = 0;
for (const file of userPages()) {
  const text = read(file);
  words += wordsIn(text);
  for (const sentence of sentencesOf(text))
    if (sentence.words > MAX_SENTENCE)
      faults.push(
        `${file}:${sentence.line}: a sentence of ${sentence.words} words: ${sentence.text.slice(0, 80)}…`,
      );
}
for (const file of userPages())
  for (const { line, term } of unexplained(read(file)))
    faults.push(`${file}:${line}: "${term}" is neither a link nor explained where the page has it first`);
if (words > MAX_WORDS) faults.push(`pages of users have ${words} words, more than ${MAX_WORDS}`);
for (const [file, bound] of Object.entries(BOUNDS)) {
  const count = wordsIn(read(file));
  if (count > bound) faults.push(`${file} has ${count} words, more than ${bound}`);
}
const lines = read('README.md').trimEnd().split('\n').length;
if (lines > MAX_README_LINES) faults.push(`README.md has ${lines} lines, more than ${MAX_README_LINES}`);

for (const fault of faults) console.error(fault);
console.log(`${words} words in pages of users, at most ${MAX_WORDS}; sentences have at most ${MAX_SENTENCE}`);
if (faults.length > 0) process.exitCode = 1;
