import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { readCommandLine, wholeNumber } from '../../../scripts/command-line.js';
import { PLATFORMS, type PlatformName } from '../passes.js';
import { figuresShown } from './figures.js';
import { readFinds, writeFinds } from './seeds.js';
import { createMemory, progressIn } from './shared.js';
import { TARGETS } from './targets.js';
import type { Failure, WorkerMessage, WorkerOptions } from './worker.js';

/** `npm run fuzz`: runs every decoder on mutated input; the exit code is 1 if a failure was found. */

const USAGE = `npm run fuzz -- [--seconds N] [--target NAME]… [--platform node|web] [--seed N] [--save]

  --seconds N       duration, on both platforms at once (default: 60)
  --target NAME     one decoder, or several (default: all)
  --platform NAME   node or web (default: both)
  --seed N          repeats the inputs of an earlier run
  --input INPUT     hex digits or @FILE: one input for one --target
  --save            adds inputs with new coverage to conformance/corpus/seeds.txt

Targets: ${TARGETS.map(({ name }) => name).join(', ')}`;

const { values } = readCommandLine(USAGE, {
  options: {
    seconds: { type: 'string', default: '60' },
    target: { type: 'string', multiple: true },
    platform: { type: 'string' },
    seed: { type: 'string' },
    input: { type: 'string' },
    save: { type: 'boolean', default: false },
  },
});

/** A single input that takes longer hangs; the thread itself fails inputs that take longer than a second. */
const HANG_MS = 15_000;
const POLL_MS = 250;
const MAX_RESIDENT_GROWTH = 1024 * 1024 * 1024;

type Done = Extract<WorkerMessage, { type: 'done' }>;
type Outcome = { readonly failure: Failure } | { readonly done: Done };

const names = TARGETS.map(({ name }) => name);
const targets = values.target ?? names;
const unknown = targets.filter((name) => !names.includes(name));
const platforms = PLATFORMS.filter((name) => values.platform === undefined || name === values.platform);
const seconds = wholeNumber('seconds', values.seconds, USAGE);
const seed = values.seed === undefined ? Date.now() % 2 ** 31 : wholeNumber('seed', values.seed, USAGE, 0);

process.exitCode = await main();

async function main(): Promise<number> {
  if (unknown.length > 0 || platforms.length === 0) {
    console.error(`targets: ${names.join(', ')}; platforms: ${PLATFORMS.join(', ')}`);
    return 2;
  }
  if (values.input !== undefined && targets.length !== 1) {
    console.error('--input needs exactly one --target');
    return 2;
  }
  if (values.input === undefined) console.log(`seed ${seed}, ${seconds} s on ${platforms.join(' and ')}`);
  const outcomes = await Promise.all(
    platforms.map(async (platform) => ({ platform, outcome: await runOn(platform) })),
  );
  for (const { platform, outcome } of outcomes) {
    if ('failure' in outcome) reportFailure(platform, outcome.failure);
    else reportDone(platform, outcome.done);
  }
  if (outcomes.some(({ outcome }) => 'failure' in outcome)) return 1;
  if (values.save) save(outcomes.flatMap(({ outcome }) => ('done' in outcome ? [outcome.done] : [])));
  return 0;
}

/** Fuzzes on one platform in a thread of its own, and watches it. */
function runOn(platform: PlatformName): Promise<Outcome> {
  const memory = createMemory();
  const progress = progressIn(memory);
  const workerOptions: WorkerOptions = {
    platform,
    seconds,
    seed,
    targets,
    input: inputHex(),
    memory,
  };
  const worker = new Worker(new URL('./worker.mjs', import.meta.url), {
    workerData: workerOptions,
    resourceLimits: { maxOldGenerationSizeMb: 1024 },
  });

  return new Promise((resolve) => {
    let last = { count: -1, at: performance.now() };
    const resident = process.memoryUsage.rss();
    const finish = (outcome: Outcome) => {
      clearInterval(watch);
      void worker.terminate();
      resolve(outcome);
    };
    /** Reports the input that is running, or that ran last. */
    const blame = (reason: string) => {
      const { running } = progress.look();
      const target = running === undefined ? 'none' : (names[running.target] as string);
      finish({ failure: { target, input: Buffer.from(running?.input ?? []).toString('hex'), reason } });
    };
    const watch = setInterval(() => {
      const { count, running } = progress.look();
      if (count !== last.count) last = { count, at: performance.now() };
      else if (running !== undefined && performance.now() - last.at > HANG_MS) {
        blame(`did not return within ${HANG_MS / 1000} s`);
      }
      if (process.memoryUsage.rss() - resident > MAX_RESIDENT_GROWTH)
        blame('the process grew by more than 1 GB');
    }, POLL_MS);
    worker.on('message', (message: WorkerMessage) => {
      if (message.type === 'failure') finish({ failure: message.failure });
      if (message.type === 'done') finish({ done: message });
    });
    worker.on('error', (error) => blame(error.stack ?? String(error)));
    worker.on('exit', (code) => blame(`the thread ended with code ${code}`));
  });
}

function inputHex(): string | undefined {
  const { input } = values;
  return input?.startsWith('@') ? readFileSync(input.slice(1), 'utf8').trim() : input;
}

function reportFailure(platform: PlatformName, { target, input, reason }: Failure): void {
  console.log(`\nFOUND on ${platform}, target ${target}: ${reason}`);
  const digest = createHash('sha256').update(input).digest('hex').slice(0, 12);
  const file = join(tmpdir(), `parlance-fuzz-${target}-${digest}.hex`);
  writeFileSync(file, `${input}\n`);
  console.log(`input (${input.length / 2} bytes, also in ${file}): ${input.slice(0, 2000)}`);
  console.log(`again: npm run fuzz -- --platform ${platform} --target ${target} --input @${file}`);
}

function reportDone(platform: PlatformName, { targets, blocks, growth, refused }: Done): void {
  if (refused !== undefined) {
    console.log(`${platform}: ${refused ? 'refused' : 'accepted'}`);
    return;
  }
  console.log(`\n${platform.padEnd(14)} executions   refused  corpus`);
  for (const { target, executions, refused, corpus } of targets) {
    const share = `${Math.round((100 * refused) / Math.max(1, executions))} %`;
    console.log(
      `${target.padEnd(14)} ${String(executions).padStart(10)} ${share.padStart(9)} ${String(corpus).padStart(7)}`,
    );
  }
  for (const { target, figures } of targets)
    if (figures !== undefined) console.log(figuresShown(target, figures).join('\n'));
  const executions = targets.reduce((sum, report) => sum + report.executions, 0);
  const corpus = targets.reduce((sum, report) => sum + report.corpus, 0);
  console.log(
    `${executions} executions, no crash, corpus ${corpus}, ${blocks.covered} of ${blocks.known} known blocks covered, heap ${growth >= 0 ? '+' : ''}${growth} MB`,
  );
}

/** Adds finds to the committed ones. */
function save(runs: readonly Done[]): void {
  const kept = readFinds();
  const found = runs.flatMap((run) => run.targets);
  writeFinds(
    new Map(
      names.map((name) => {
        const finds = found.flatMap(({ target, finds }) => (target === name ? finds : []));
        return [name, [...new Set([...(kept.get(name) ?? []), ...finds])]];
      }),
    ),
  );
}
