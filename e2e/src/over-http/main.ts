import { readdirSync, readFileSync } from 'node:fs';
import { join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readCommandLine } from '../../../scripts/command-line.js';
import { vitestReport } from '../../../scripts/run.js';
import { judged } from './judged.js';
import { NOT_OVER_HTTP } from './not-over-http.js';

/** Runs the tests of sessions again, over HTTP. */

const USAGE = `node --import tsx --conditions=@parlance/source e2e/src/over-http/main.ts [PART-OF-A-PATH …]

Runs all tests end to end whose clients are those of the kit, with sessions over
HTTP in place of WebSockets, or those of the files that are named. Takes half an
hour.

The exit code is 1 if a test fails that not-over-http.ts does not list, and if
one that is listed passes or does not exist.`;

const { positionals } = readCommandLine(USAGE, { options: {}, allowPositionals: true });

const ROOT = fileURLToPath(new URL('../', import.meta.url));
/** Sessions over HTTP have tests of their own there. */
const OWN = ['http-stream', 'over-http', 'proxies'];

const files = readdirSync(ROOT, { recursive: true, encoding: 'utf8' })
  .map((path) => path.split(sep).join('/'))
  .filter((path) => /(?<!\.browser)\.test\.ts$/.test(path) && !OWN.includes(path.split('/')[0] as string))
  .filter((path) => positionals.length === 0 || positionals.some((part) => `e2e/src/${path}`.includes(part)))
  .filter((path) => path.endsWith('-nodes.test.ts') || usesPeers(readFileSync(join(ROOT, path), 'utf8')));

function usesPeers(text: string): boolean {
  return /kit\/(?:peers|cut-session)\.js/.test(text);
}

if (files.length === 0) throw new Error(`no test of sessions has a path with ${positionals.join(' or ')}`);
const { code, errors, report } = await vitestReport({
  projects: ['e2e', 'e2e-alone'],
  files: files.map((path) => `e2e/src/${path}`),
  env: { OVER_HTTP: '1' },
});
const { passed, expected, failures } = judged(report, ROOT, NOT_OVER_HTTP, files);
// Errors outside of all tests are not in the report.
if (code !== 0 && failures.length + expected === 0) failures.push(errors.slice(-2_000));
for (const failure of failures) console.error(`${failure}\n`);
console.log(`${expected} tests do not apply over HTTP, as listed`);
console.log(`${passed} passed, ${failures.length} failed`);
process.exitCode = failures.length === 0 ? 0 : 1;
