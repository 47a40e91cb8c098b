import { readFileSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { parentPort, workerData } from 'node:worker_threads';
import { toHex } from '../../../packages/protocol/src/base/testing/bytes.js';
import { Mismatch } from '../expect.js';
import { isProtocolError, platform } from '../subject.js';
import { createCoverage, createProfiler } from './coverage.js';
import type { Figures } from './figures.js';
import { createFuzzer } from './fuzzer.js';
import { leakOf, MAX_LEAK } from './leak.js';
import { createRandom } from './random.js';
import { readFinds } from './seeds.js';
import { progressIn } from './shared.js';
import type { Target } from './target.js';
import { prepareTargets, TARGETS } from './targets.js';

/** The thread that runs the targets; it reports to `main.ts`, which watches it. */

export interface WorkerOptions {
  readonly platform: 'node' | 'web';
  readonly seconds: number;
  readonly seed: number;
  /** Names of targets. */
  readonly targets: readonly string[];
  /** A single input to run instead, as hex. */
  readonly input: string | undefined;
  readonly memory: SharedArrayBuffer;
}

export interface TargetReport {
  readonly target: string;
  readonly executions: number;
  readonly refused: number;
  readonly corpus: number;
  /** Inputs worth keeping, as hex. */
  readonly finds: readonly string[];
  /** The traffic of whole sessions. */
  readonly figures?: Figures | undefined;
}

export interface Failure {
  readonly target: string;
  readonly input: string;
  readonly reason: string;
}

export type WorkerMessage =
  | { readonly type: 'started' }
  | { readonly type: 'failure'; readonly failure: Failure }
  | {
      readonly type: 'done';
      readonly targets: readonly TargetReport[];
      readonly blocks: { readonly covered: number; readonly known: number };
      /** Megabytes of heap and buffers beyond those at the start, after garbage collection. */
      readonly growth: number;
      /** With a single input: whether it was refused. */
      readonly refused?: boolean;
    };

const MAX_CALL_MS = 1000;
const MAX_GROWTH = 256 * 1024 * 1024;
const SLICE_MS = 150;
const SESSION_SLICE_MS = 600;
/** Longer finds are not kept. */
const MAX_FIND = 256;

const options = workerData as WorkerOptions;
const progress = progressIn(options.memory);
const post = (message: WorkerMessage) => parentPort?.postMessage(message);

/** A failing input, thrown through the fuzzer. */
class Found extends Error {
  readonly failure: Failure;
  constructor(failure: Failure) {
    super(failure.reason);
    this.failure = failure;
  }
}

if (platform.name !== options.platform)
  throw new Error(`runs on ${platform.name}, not on ${options.platform}`);
const committed = readFinds();
await prepareTargets();
const targets = TARGETS.filter(({ name }) => options.targets.includes(name)).map(withFinds);
post({ type: 'started' });
try {
  if (options.input === undefined) await fuzz();
  else {
    const refused = execute(targets[0] as Target, new Uint8Array(Buffer.from(options.input, 'hex')));
    post({ type: 'done', targets: [], blocks: { covered: 0, known: 0 }, growth: 0, refused });
  }
} catch (error) {
  if (!(error instanceof Found)) throw error;
  post({ type: 'failure', failure: error.failure });
}

async function fuzz(): Promise<void> {
  const profiler = createProfiler((url) =>
    /\/packages\/protocol\/src\/(?!testing\/)|\/packages\/server\/src\/relay\/|@msgpack/.test(url),
  );
  const coverage = createCoverage();
  const fuzzers = targets.map((target, i) =>
    createFuzzer({
      target,
      random: createRandom(options.seed + i),
      profiler,
      execute,
      observe: (snapshot) => coverage.add(snapshot),
    }),
  );
  const gc = garbageCollector();
  await gc();
  const before = memory();
  const end = performance.now() + options.seconds * 1000;
  while (performance.now() < end) {
    for (const fuzzer of fuzzers) {
      // A whole session takes as long as a hundred frames.
      const slice = fuzzer.target.figures === undefined ? SLICE_MS : SESSION_SLICE_MS;
      fuzzer.run(Math.min(slice, Math.max(1, end - performance.now())));
      // Native memory is released in separate tasks, which need a tick of the event loop.
      await setImmediate();
      if (memory() - before < MAX_GROWTH) continue;
      await gc();
      if (memory() - before >= MAX_GROWTH) {
        const reason = `the heap grew by ${megabytes(memory() - before)} MB; the reported input is only the last of many`;
        const last = fuzzer.corpus.at(-1) ?? new Uint8Array(0);
        throw new Found({ target: fuzzer.target.name, input: toHex(last), reason });
      }
    }
  }
  await gc();
  const growth = megabytes(memory() - before);
  const reports = fuzzers.map((fuzzer) => ({
    target: fuzzer.target.name,
    executions: fuzzer.executions,
    refused: fuzzer.refused,
    corpus: fuzzer.corpus.length,
    finds: fuzzer.distilled(MAX_FIND).map(toHex),
    figures: fuzzer.target.figures && structuredClone(fuzzer.target.figures),
  }));
  for (const target of targets) {
    if (target.figures === undefined) continue;
    const bytes = await leakOf((input) => execute(target, input), createRandom(options.seed), gc);
    if (bytes <= MAX_LEAK) continue;
    const reason = `every run leaves ${Math.round(bytes / 1024)} KiB behind; the reported input is arbitrary`;
    throw new Found({ target: target.name, input: '', reason });
  }
  post({
    type: 'done',
    blocks: coverage.blocks,
    growth,
    targets: reports,
  });
}

/** Runs one input, and after a refusal a valid one. */
function execute(target: Target, input: Uint8Array): boolean {
  const run = () => {
    const before = busyMs();
    const refused = target.run(input);
    const ms = busyMs() - before;
    if (refused) target.recheck();
    return { refused, ms };
  };
  progress.begin(
    TARGETS.findIndex(({ name }) => name === target.name),
    input,
  );
  try {
    const first = run();
    // Processor time, since other work makes a machine slow. A garbage collection is counted once, a slow decoder every time.
    const ms = first.ms <= MAX_CALL_MS ? first.ms : Math.min(first.ms, run().ms, run().ms);
    if (ms > MAX_CALL_MS)
      throw new Mismatch(`takes ${Math.round(ms)} ms, at most ${MAX_CALL_MS} are allowed`);
    return first.refused;
  } catch (error) {
    const shown = error instanceof Error ? (error.stack ?? String(error)) : String(error);
    // Outside of an expected outcome, even a ProtocolError is a failure.
    const reason = isProtocolError(error) ? `refused although it must be accepted: ${shown}` : shown;
    throw new Found({ target: target.name, input: toHex(input), reason });
  } finally {
    progress.end();
  }
}

/** Milliseconds of processor time that this thread has taken; where the system does not tell, its process, with the other platform in it. */
function busyMs(): number {
  try {
    return Number(readFileSync('/proc/thread-self/schedstat', 'utf8').split(' ')[0]) / 1e6;
  } catch {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1000;
  }
}

/** The target with the committed finds of earlier runs. */
function withFinds(target: Target): Target {
  const finds = committed.get(target.name) ?? [];
  return {
    ...target,
    seeds: [...target.seeds, ...finds.map((hex) => new Uint8Array(Buffer.from(hex, 'hex')))],
  };
}

function garbageCollector(): () => Promise<void> {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  return async () => {
    collect();
    await setImmediate();
    collect();
    await setImmediate();
  };
}

function memory(): number {
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

function megabytes(bytes: number): number {
  return Math.round(bytes / 1024 / 1024);
}
