import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

/** Lists the lines of the sources and the documents whose sentences hide their actor, and fails if there are too many. */

/** Vague pronouns, and "go on" for "continue". */
const WORDS = /\b(?:whoever|whatever|nobody|somebody|anybody|anew|go(?:es|ing)? on|went on)\b/i;
/** A sentence that begins with "what", and is neither a question nor a heading. */
const BEGINNING = /(?:^|[.!*/>] )\s*What (?![^?.]*\?)/;

/** A sentence with one of these seldom names its actor; a few are quotations or are right as they stand. */
const MAX_LINES = 20;

const roots = ['README.md', 'docs', ...readdirSync('packages').map((name) => join('packages', name, 'src'))];
let count = 0;
for (const file of roots.flatMap(filesUnder)) {
  for (const [index, line] of readFileSync(file, 'utf8').split('\n').entries()) {
    if (!WORDS.test(line) && !BEGINNING.test(line)) continue;
    count++;
    console.log(`${file}:${index + 1}: ${line.trim()}`);
  }
}
console.log(`${count} lines whose sentences hide their actor, at most ${MAX_LINES} allowed`);
if (count > MAX_LINES) process.exitCode = 1;

function filesUnder(path: string): string[] {
  if (statSync(path).isDirectory()) return readdirSync(path).flatMap((name) => filesUnder(join(path, name)));
  return /(?<!\.gen)\.(?:ts|md)$/.test(path) ? [path] : [];
}
