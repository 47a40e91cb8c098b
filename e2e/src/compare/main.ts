import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readCommandLine } from '../../../scripts/command-line.js';
import { packOnce, tarballsIn } from '../../../scripts/pack.js';
import { SQLITE } from '../../../scripts/pasted.js';
import { Project } from '../bundlers/project.js';
import { type Figures, Measurement } from './measure.js';
import { missingIn, PAGE, tablesOf, withTables } from './page.js';
import { PACKAGES_OF_RIVALS, RIVALS } from './rivals.js';

/** Runs the same app of each rival, from packages in an empty folder, and compares what happens. */

const USAGE = `npm run compare -- [--only FOLDER] [--check | --write] [TARBALLS]

Prints the tables of ${PAGE}. TARBALLS is a folder with our packages, if they are packed already. Centrifugo is
$CENTRIFUGO, or ~/go/bin/centrifugo; without it, it is left out.

  --only FOLDER  the rivals with this in the name of their folder
  --check        fails if the page says something else; bytes may differ
  --write        writes the tables into the page`;

const { values, positionals } = readCommandLine(USAGE, {
  allowPositionals: true,
  options: { only: { type: 'string' }, check: { type: 'boolean' }, write: { type: 'boolean' } },
});

const program = process.env['CENTRIFUGO'] ?? join(homedir(), 'go/bin/centrifugo');
const hasCentrifugo = existsSync(program);
const rivals = RIVALS.filter(({ folder }) => folder.includes(values.only ?? '')).filter(
  ({ needs }) => needs !== 'centrifugo' || hasCentrifugo,
);
if (!hasCentrifugo)
  console.log(
    'left out: Centrifugo, which "go install github.com/centrifugal/centrifugo/v6@v6.9.1" installs',
  );

const tarballs = tarballsIn(positionals[0] ?? (await packOnce()));
const project = new Project([...PACKAGES_OF_RIVALS, ...SQLITE, ...tarballs]);
const apps = join(project.folder, 'apps');
cpSync(fileURLToPath(new URL('apps', import.meta.url)), apps, { recursive: true });

const measurement = await Measurement.create(apps, program);
const failures: string[] = [];
// All at once: they mostly wait.
const measured = await Promise.all(
  rivals.map((rival) =>
    measurement.of(rival).catch((error: unknown) => {
      failures.push(`✗ ${rival.folder}: ${error instanceof Error ? error.stack : error}`);
    }),
  ),
);
const figures = measured.filter((each): each is Figures => each !== undefined);

// One that Go has installed says 0.0.0 of itself.
const facts = hasCentrifugo ? execFileSync('go', ['version', '-m', program], { encoding: 'utf8' }) : '';
const centrifugo = /\bcentrifugo\/v6\s+v([\d.]+)/.exec(facts)?.[1] ?? 'unknown';
const tables = tablesOf(figures, project.folder, centrifugo);
console.log(tables);
const page = readFileSync(PAGE, 'utf8');
if (values.check === true) {
  failures.push(...missingIn(page, tables).map((line) => `✗ ${PAGE} does not say: ${line}`));
}
if (values.write === true && failures.length === 0) writeFileSync(PAGE, withTables(page, tables));
for (const failure of failures) console.error(failure);
console.log(`${rivals.length - failures.length} passed, ${failures.length} failed`);
process.exitCode = failures.length === 0 ? 0 : 1;
