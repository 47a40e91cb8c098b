import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readCommandLine, wholeNumber } from '../../scripts/command-line.js';
import { test } from './kit/main.js';
import { PLATFORMS, runPass } from './passes.js';
import { lineOf, reportOf } from './report.js';
import { readVectors, unknownFiles, type VectorFile } from './vectors.js';

/**
 * `npm run conformance -- --vectors DIR`: runs every vector file in DIR that it knows, on both platforms, and
 * ends with `N passed, N failed` over all cases. The exit code is 1 if a case failed, and 2 if DIR cannot be
 * read.
 *
 * `--peer URL` and `--listen PORT` test a peer of any implementation instead: see `kit/`.
 */

const USAGE = `npm run conformance -- [--vectors DIR]
npm run conformance -- --peer URL | --listen PORT [--only NAME,…] [--json] [--timeout MS] [--list]

  --vectors DIR   a folder with vector files (default: conformance/vectors)
  --peer URL      tests a server: the kit is its client
  --listen PORT   tests a client: the kit is the server at ws://127.0.0.1:PORT/session; 0 takes any port
  --only NAME,…   only scenarios whose names begin so
  --json          one JSON document in place of lines
  --timeout MS    the most that one step of a scenario waits for the peer (default: 5,000)
  --list          lists the scenarios: those for a server, and with --listen those for a client`;

const { values } = readCommandLine(USAGE, {
  options: {
    vectors: { type: 'string' },
    peer: { type: 'string' },
    listen: { type: 'string' },
    only: { type: 'string', default: '' },
    json: { type: 'boolean', default: false },
    timeout: { type: 'string', default: '5000' },
    list: { type: 'boolean', default: false },
  },
});
const folder = resolve(values.vectors ?? fileURLToPath(new URL('../vectors', import.meta.url)));
const { peer, listen, json, list } = values;

process.exitCode =
  peer === undefined && listen === undefined && !list
    ? await main()
    : await test({
        peer,
        listen: listen === undefined ? undefined : wholeNumber('listen', listen, USAGE, 0),
        only: values.only.split(',').filter((name) => name !== ''),
        json,
        list,
        timeoutMs: wholeNumber('timeout', values.timeout, USAGE),
      });

async function main(): Promise<number> {
  let files: readonly VectorFile[];
  try {
    files = readVectors(folder);
    for (const name of unknownFiles(folder)) console.log(`${name.padEnd(20)} not known by name, not run`);
  } catch (error) {
    console.error(`no vectors in ${folder}: ${(error as Error).message}`);
    return 2;
  }
  // In parallel if possible; the time of a case is measured in processor time.
  const passes = await Promise.all(PLATFORMS.map((platform) => runPass(platform, folder)));
  const reports = files.map((file) => reportOf(file, passes));
  for (const report of reports) {
    console.log(lineOf(report));
    for (const detail of report.details) console.log(detail);
  }
  const total = (count: 'passed' | 'failed') => reports.reduce((sum, report) => sum + report[count], 0);
  console.log(passes.map(({ platform, seconds }) => `${platform} ${seconds.toFixed(1)} s`).join(', '));
  // A pass that dies after its last case has failed nevertheless.
  const deaths = passes.filter(({ failure }) => failure !== undefined);
  for (const { platform, failure } of deaths) console.error(`the pass on ${platform} failed: ${failure}`);
  console.log(`${total('passed')} passed, ${total('failed')} failed`);
  return total('failed') > 0 || deaths.length > 0 ? 1 : 0;
}
