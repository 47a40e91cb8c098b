import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { freePort } from '../../../packages/server/src/engine/testing/free-port.js';
import { loadEveryMetric } from './load.js';

/**
 * `npm run grafana`: a Prometheus (Debian: apt-get install prometheus) scrapes a server under load, and each panel of
 * deploy/grafana/dashboard.json must return a series. `promtool` checks the alerts, and Prometheus evaluates them.
 */

const FOLDER = fileURLToPath(new URL('../../../deploy/grafana', import.meta.url));
const ALERTS = join(FOLDER, 'alerts.yaml');
const RATE = '5s';
/** How long every panel may take to have its series, in milliseconds. */
const PATIENCE_MS = 60_000;

interface Panel {
  readonly title: string;
  readonly targets: readonly { readonly expr: string }[];
}

function startPrometheus(folder: string, port: number, target: string): ChildProcess {
  const config = [
    'global: { scrape_interval: 1s, evaluation_interval: 1s }',
    `rule_files: [${JSON.stringify(ALERTS)}]`,
    'scrape_configs:',
    `  - { job_name: parlance, static_configs: [{ targets: [${JSON.stringify(target)}] }] }`,
  ];
  writeFileSync(join(folder, 'prometheus.yml'), `${config.join('\n')}\n`);
  const args = [
    `--config.file=${join(folder, 'prometheus.yml')}`,
    `--storage.tsdb.path=${join(folder, 'data')}`,
    `--web.listen-address=127.0.0.1:${port}`,
    '--log.level=error',
  ];
  return spawn('prometheus', args, { stdio: ['ignore', 'ignore', 'inherit'] });
}

interface Answer {
  readonly status: string;
  readonly error?: string;
  readonly data?: { readonly result: readonly unknown[] };
}

/** How many series an expression of a panel returns now. */
async function seriesOf(port: number, expr: string): Promise<number> {
  const query = expr
    .replaceAll('$__rate_interval', RATE)
    .replaceAll('"$job"', '".*"')
    .replaceAll('"$instance"', '".*"');
  const response = await fetch(`http://127.0.0.1:${port}/api/v1/query?${new URLSearchParams({ query })}`);
  const { status, error, data } = (await response.json()) as Answer;
  if (status !== 'success') throw new Error(`${query}: ${error}`);
  return data?.result.length ?? 0;
}

const { panels } = JSON.parse(readFileSync(join(FOLDER, 'dashboard.json'), 'utf8')) as {
  panels: readonly Panel[];
};
console.log(execFileSync('promtool', ['check', 'rules', ALERTS], { encoding: 'utf8' }).trim());

const folder = mkdtempSync(join(tmpdir(), 'parlance-grafana-'));
const load = await loadEveryMetric();
const port = await freePort();
const prometheus = startPrometheus(folder, port, load.target);
let missing: string[] = [];
try {
  const deadline = Date.now() + PATIENCE_MS;
  do {
    await pause(2_000);
    missing = [];
    for (const { title, targets } of panels) {
      for (const { expr } of targets) {
        const count = await seriesOf(port, expr).catch((error: unknown) => {
          // Prometheus is not up yet.
          if (error instanceof TypeError) return 0;
          throw error;
        });
        if (count === 0) missing.push(`${title}: ${expr}`);
      }
    }
  } while (missing.length > 0 && Date.now() < deadline);
  const rules = await fetch(`http://127.0.0.1:${port}/api/v1/rules`);
  const { data } = (await rules.json()) as {
    data: { groups: { rules: { name: string; health: string }[] }[] };
  };
  for (const { name, health } of data.groups.flatMap((group) => group.rules))
    if (health !== 'ok') missing.push(`the alert ${name} is ${health}`);
} finally {
  prometheus.kill();
  await load.close();
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}
const expressions = panels.flatMap(({ targets }) => targets).length;
for (const each of missing) console.error(`✗ no series: ${each}`);
console.log(
  `${panels.length} panels, ${expressions - missing.length} of ${expressions} expressions return series`,
);
process.exitCode = missing.length === 0 ? 0 : 1;
