import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { COVERAGE, coveragePage, readRequirements } from '../conformance/src/requirements.js';
import { designPages, recordTable, tooLong } from './docs/design.js';
import { buildExamples } from './docs/examples.js';
import { buildLifecycleTable, LIFECYCLE_TABLE } from './docs/lifecycle-table.js';
import { brokenLinks, brokenPaths, markdownFiles } from './docs/links.js';
import { redisTable } from './docs/redis-commands.js';
import { survivalTables } from './docs/survival.js';
import { buildTables } from './docs/tables.js';

/**
 * Fills the sections between `<!-- begin NAME -->` and `<!-- end NAME -->` in the documentation, and writes the table
 * of the lifecycle and the page that says what covers each requirement. Fails at a requirement without a number or without
 * coverage, at a link that leads nowhere, and at a page about design that is too long or names a file that is gone. `--check` writes
 * nothing and also fails if a file is out of date.
 */

const FOLDER = 'docs/protocol';
const FILES = [
  ...readdirSync(FOLDER).map((name) => `${FOLDER}/${name}`),
  'docs/SURVIVAL.md',
  'docs/DURABLE.md',
  'docs/design/README.md',
];
/** Pages that name paths of the repository. */
const MAPS = [
  'CONTRIBUTING.md',
  'packages/server/src/README.md',
  'packages/client/src/README.md',
  'scripts/README.md',
];
const check = process.argv.includes('--check');
const sections = new Map([
  ...buildTables(),
  ...survivalTables(),
  ...redisTable(),
  ...recordTable(),
  ...(await buildExamples()),
]);
const used = new Set<string>();
let stale = 0;

for (const file of FILES) {
  const text = readFileSync(file, 'utf8');
  const filled = text.replace(/<!-- begin (.+?) -->\n[\s\S]*?<!-- end \1 -->/g, (_all, name: string) => {
    const content = sections.get(name);
    if (content === undefined) throw new Error(`${file}: unknown section "${name}"`);
    used.add(name);
    return `<!-- begin ${name} -->\n${content}\n<!-- end ${name} -->`;
  });
  if (filled !== text) update(file, filled);
}
const faults: string[] = [];
const written = [
  [LIFECYCLE_TABLE, buildLifecycleTable()],
  [COVERAGE, coveragePage(readRequirements(faults), faults)],
] as const;
for (const [file, text] of written) {
  if (!existsSync(file) || readFileSync(file, 'utf8') !== text) update(file, text);
}
faults.push(
  ...brokenLinks(markdownFiles()),
  ...[...MAPS, ...designPages()].flatMap(brokenPaths),
  ...designPages().flatMap((file) => tooLong(file, readFileSync(file, 'utf8'))),
);
for (const fault of faults) console.error(fault);
for (const name of sections.keys()) {
  if (used.has(name)) continue;
  console.error(`no file in the documentation has the section "${name}"`);
  stale++;
}
if ((check && stale > 0) || faults.length > 0) process.exitCode = 1;

function update(file: string, text: string): void {
  stale++;
  if (check) console.error(`${file} is out of date; run "npm run docs"`);
  else writeFileSync(file, text);
}
