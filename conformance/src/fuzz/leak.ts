import type { Random } from './random.js';

/** Whether runs leave memory behind, which only shows over many runs. */

/** Bytes per run. A leaked session is larger, and the error of a measurement is smaller. */
export const MAX_LEAK = 24 * 1024;
const WARM_UP = 15;
const RUNS = 40;
const INPUT_LENGTH = 24;

/**
 * @param collect collects all garbage.
 * @returns the least number of bytes that each run leaves behind.
 */
export async function leakOf(
  run: (input: Uint8Array) => unknown,
  random: Random,
  collect: () => Promise<void>,
): Promise<number> {
  const measure = async (runs: number): Promise<number> => {
    for (let i = 0; i < runs; i++) {
      run(Uint8Array.from({ length: INPUT_LENGTH }, () => random.below(256)));
    }
    await collect();
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  };
  const warm = await measure(WARM_UP);
  const half = await measure(RUNS);
  const whole = await measure(RUNS);
  // Caches grow once, a leak grows all the time.
  return Math.min(half - warm, whole - half) / RUNS;
}
