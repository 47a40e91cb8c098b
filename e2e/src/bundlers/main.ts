import { cpSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { readCommandLine } from '../../../scripts/command-line.js';
import { turn } from '../../../scripts/extent.js';
import { packOnce, tarballsIn } from '../../../scripts/pack.js';
import { chromiumMissing, launchChromium } from '../kit/chat-page.js';
import { BUNDLERS, type Bundler } from './bundlers.js';
import { casesOf, unexpected } from './cases.js';
import { Project } from './project.js';
import { RUNTIMES } from './runtimes.js';
import { type Fetched, type Visit, visit } from './visit.js';

/** `npm run bundlers`: the packed packages in pages that bundlers build, and in runtimes that run bundles. */

const USAGE = `npm run bundlers -- [--short] [--only NAME] [--files] [FOLDER]

Installs the packed packages beside each bundler in an empty folder, builds one
page without configuration, and uses it in Chromium against a server: with the
optional packages, and without. Then tries bundles on Node and on Cloudflare's
workerd, the quick start and their guide under Bun and Deno,
and the guide to React Native. FOLDER contains the tarballs if they are packed already.

  --short        Vite, also without the optional packages, another one each day, neither Bun, Deno nor React Native
  --only NAME    what has this in its name
  --files        lists the files that each page fetched`;

const { values, positionals } = readCommandLine(USAGE, {
  allowPositionals: true,
  options: {
    short: { type: 'boolean', default: false },
    only: { type: 'string' },
    files: { type: 'boolean', default: false },
  },
});

const isChosen = (name: string) => values.only === undefined || name.toLowerCase().includes(values.only);
/** One each time, and one of the others that are used most. */
const [first, ...others] = BUNDLERS.filter(({ isShort }) => isShort);
const short = [first, others[turn % others.length]];
const bundlers = BUNDLERS.filter((each) => isChosen(each.name) && (!values.short || short.includes(each)));
const runtimes = RUNTIMES.filter(({ name, isLong }) => isChosen(name) && !(isLong && values.short));
const tarballs = tarballsIn(positionals[0] ?? (await packOnce()));
let passed = 0;
let failed = 0;

function report(name: string, faults: readonly string[], details = ''): void {
  if (faults.length === 0) passed++;
  else failed++;
  console.log(`${faults.length === 0 ? '✓' : '✗'} ${name}${details}`);
  for (const fault of faults) console.log(`    ${fault}`);
}

const size = ({ files, bytes, gzipped }: Fetched) =>
  `${files.length} files of ${kilobytes(bytes)} kB, ${kilobytes(gzipped)} gzipped`;
const kilobytes = (bytes: number) => (bytes / 1000).toFixed(0);

/** Builds and visits the page in one state of the project. */
async function tryBundler(project: Project, bundler: Bundler, browser: Browser, hasPackages: boolean) {
  const { name, copiesWasm, findsWorkers } = bundler;
  const label = `${name}, ${hasPackages ? 'with' : 'without'} the optional packages`;
  project.install(hasPackages);
  const started = performance.now();
  let folder: string;
  try {
    folder = await project.build(bundler);
  } catch (error) {
    return report(label, [String(error)]);
  }
  const took = ((performance.now() - started) / 1000).toFixed(0);
  const means = { hasPackages, hasWasm: copiesWasm, host: findsWorkers ? 'worker' : 'tab' } as const;
  await tryPage(browser, folder, label, means, `, built in ${took} s`);
  if (copiesWasm || !hasPackages) return;
  // The message asks for this.
  cpSync(
    join(project.folder, 'node_modules/brotli-wasm/pkg.web/brotli_wasm_bg.wasm'),
    join(folder, 'brotli_wasm_bg.wasm'),
  );
  cpSync(
    join(project.folder, 'node_modules/@bokuweb/zstd-wasm/dist/web/zstd.wasm'),
    join(folder, 'zstd.wasm'),
  );
  await tryPage(browser, folder, `${name}, with copied files`, { ...means, hasWasm: true }, '');
}

async function tryPage(
  browser: Browser,
  folder: string,
  label: string,
  means: Parameters<typeof casesOf>[0],
  details: string,
): Promise<void> {
  const cases = casesOf(means);
  let visited: Visit;
  try {
    visited = await visit(browser, folder, cases);
  } catch (error) {
    return report(label, [String(error)], details);
  }
  const { outcomes, first, last, complaints } = visited;
  // The files that Brotli and sharing lack are asked for in vain, and so are packages that are not installed.
  const isKnown = (complaint: string) =>
    (!means.hasPackages && complaint.startsWith('codec.unavailable: ')) ||
    (!means.hasWasm && complaint.includes('brotli_wasm_bg.wasm')) ||
    (means.host !== 'worker' && complaint.includes('shared-worker.js'));
  const faults = [...unexpected(cases, outcomes), ...complaints.filter((each) => !isKnown(each))];
  report(label, faults, `${details}; first message: ${size(first)}; everything: ${size(last)}`);
  if (values.files) for (const file of last.files) console.log(`    ${file}`);
}

const missing = chromiumMissing();
if (bundlers.length > 0 && missing === undefined) {
  const [protocol = '', , client = ''] = tarballs;
  const project = Project.withPage([protocol, client, ...bundlers.flatMap(({ packages }) => packages)]);
  await using browser = await launchChromium();
  for (const [at, bundler] of bundlers.entries()) {
    await tryBundler(project, bundler, browser, true);
    if (bundler.isBareToo && (at === 0 || !values.short)) await tryBundler(project, bundler, browser, false);
  }
} else if (missing !== undefined)
  report('bundlers', process.env['CI'] === 'true' ? [missing] : [], `: ${missing}`);
for (const { name, run } of runtimes) {
  report(name, await run(tarballs).catch((error) => [String(error)]));
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
