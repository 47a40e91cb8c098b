import { type Coverage, createCoverage, type Profiler, type Snapshot } from './coverage.js';
import { mutate } from './mutate.js';
import type { Random } from './random.js';
import type { Target } from './target.js';

/**
 * Fuzzes one target, guided by coverage: inputs that reach something new join the corpus from which further
 * inputs are made.
 */
export interface Fuzzer {
  readonly target: Target;
  readonly corpus: readonly Uint8Array[];
  readonly executions: number;
  /** Executions that ended in a refusal. */
  readonly refused: number;
  /** Runs inputs for about `ms` milliseconds. */
  run(ms: number): void;
  /** Finds that reach what the seeds do not, the shortest first, each with coverage of its own. */
  distilled(maxLength: number): Uint8Array[];
}

export interface FuzzerOptions {
  readonly target: Target;
  readonly random: Random;
  readonly profiler: Profiler;
  /** Runs one input; returns whether it was refused. */
  readonly execute: (target: Target, input: Uint8Array) => boolean;
  /** Receives the coverage of all runs. */
  readonly observe: (snapshot: Snapshot) => void;
}

const MAX_LENGTH = 8 * 1024;
/** Collecting coverage costs about as much as a hundred runs. */
const BATCH_MS = 60;
const MAX_BATCH = 2000;

export function createFuzzer({ target, random, profiler, execute, observe }: FuzzerOptions): Fuzzer {
  const coverage = createCoverage();
  const corpus: Uint8Array[] = [];
  let executions = 0;
  let refused = 0;

  const runAll = (inputs: readonly Uint8Array[]): Snapshot => {
    for (const input of inputs) {
      executions++;
      if (execute(target, input)) refused++;
    }
    const snapshot = profiler.take();
    observe(snapshot);
    return snapshot;
  };

  /** Finds the inputs that reach something new, by running smaller and smaller groups of them. */
  const keepNew = (inputs: readonly Uint8Array[]): void => {
    const snapshot = runAll(inputs);
    if (!coverage.isNew(snapshot)) return;
    if (inputs.length === 1) {
      coverage.add(snapshot);
      corpus.push(inputs[0] as Uint8Array);
      return;
    }
    const half = inputs.length >> 1;
    keepNew(inputs.slice(0, half));
    keepNew(inputs.slice(half));
    // Coverage that depends on their order or on a cache belongs to no single input.
    coverage.add(snapshot);
  };

  /** Prefers recent finds, which have been tried least. */
  const pick = (): Uint8Array => {
    const recent = Math.max(1, corpus.length >> 2);
    const from = random.below(2) === 0 ? corpus.length - recent : 0;
    return corpus[from + random.below(corpus.length - from)] as Uint8Array;
  };

  const batch = (): void => {
    const inputs: Uint8Array[] = [];
    const end = performance.now() + BATCH_MS;
    while (inputs.length < MAX_BATCH && performance.now() < end) {
      const input = mutate(pick(), random, { tokens: target.tokens, other: pick(), maxLength: MAX_LENGTH });
      inputs.push(input);
      executions++;
      if (execute(target, input)) refused++;
    }
    const snapshot = profiler.take();
    observe(snapshot);
    if (!coverage.isNew(snapshot)) return;
    keepNew(inputs);
    coverage.add(snapshot);
  };

  const begin = (): void => {
    // Discard the coverage of other targets.
    profiler.take();
    if (corpus.length > 0) return;
    for (const seed of [...target.seeds, new Uint8Array(0)]) keepNew([seed]);
    if (corpus.length === 0) corpus.push(new Uint8Array(0));
  };

  return {
    target,
    corpus,
    get executions() {
      return executions;
    },
    get refused() {
      return refused;
    },

    run(ms) {
      const end = performance.now() + ms;
      begin();
      while (performance.now() < end) batch();
    },

    distilled(maxLength) {
      profiler.take();
      const reached: Coverage = createCoverage();
      for (const seed of target.seeds) reached.add(runAll([seed]));
      const finds = corpus.filter((input) => input.length <= maxLength && !target.seeds.includes(input));
      return finds
        .toSorted((a, b) => a.length - b.length)
        .filter((input) => {
          const snapshot = runAll([input]);
          const isNew = reached.isNew(snapshot);
          if (isNew) reached.add(snapshot);
          return isNew;
        });
    },
  };
}
