import { setTimeout } from 'node:timers/promises';
import { offer } from '../../../scripts/child-process.js';
import { type BenchEncoding, type ContestantName, prepare } from './contestants.js';

/** The start of a tokenizer in a new process. */

export interface ColdStart {
  /** From requesting the vocabulary to being able to encode. */
  readonly loadMs: number;
  /** The memory that the tokenizer keeps after the texts: heap, array buffers and WebAssembly memory. */
  readonly memoryMB: number;
  /** How much the process has grown by then, including what loading left behind. */
  readonly residentMB: number;
  /** Time for the first text, and for all of them. */
  readonly firstMs: number;
  readonly allMs: number;
}

const [, , name, encoding] = process.argv as [string, string, ContestantName, BenchEncoding];

const commands = {
  async run(texts: readonly string[]): Promise<ColdStart> {
    const load = await prepare(name, encoding);
    const before = await memory();
    const start = performance.now();
    const contestant = await load();
    const loadMs = performance.now() - start;

    const firstStart = performance.now();
    let tokens = 0;
    let firstMs = 0;
    for (const text of texts) {
      tokens += contestant.encode(text).length;
      if (firstMs === 0) firstMs = performance.now() - firstStart;
    }
    const allMs = performance.now() - firstStart;
    if (tokens < texts.length) throw new Error(`${name} found no tokens`);
    const after = await memory();
    const memoryMB = (after.kept - before.kept) / 1e6;
    const residentMB = (after.resident - before.resident) / 1e6;
    return { loadMs, memoryMB, residentMB, firstMs, allMs };
  },
};
export type ColdCommands = typeof commands;

/** After garbage collection; needs `--expose-gc`. Array buffers are released a little later. */
async function memory(): Promise<{ kept: number; resident: number }> {
  for (let i = 0; i < 3; i++) {
    globalThis.gc?.();
    await setTimeout(50);
  }
  const { heapUsed, external, rss } = process.memoryUsage();
  return { kept: heapUsed + external, resident: rss };
}

offer(commands);
