import { median } from '../statistics.js';

/** For the JIT compiler: a cold run is many times slower. */
const WARM_UP_MS = 30;
/** Long enough for the clock, short enough that all turns see the same machine. */
const MIN_TURN_MS = 2;

/**
 * Microseconds that one run of each task takes. The tasks take turns, so that a slow phase of the machine
 * affects all of them, and the median of the turns counts.
 */
export function timeInTurns<Name extends string>(
  tasks: ReadonlyMap<Name, () => void>,
  rounds: number,
): Map<Name, number> {
  const repeats = new Map<Name, number>();
  for (const [name, task] of tasks) {
    for (const start = performance.now(); performance.now() - start < WARM_UP_MS; ) task();
    let count = 1;
    while (elapsed(task, count) < MIN_TURN_MS) count *= 2;
    repeats.set(name, count);
  }
  const found = new Map<Name, number[]>([...tasks.keys()].map((name) => [name, []]));
  for (let round = 0; round < rounds; round++) {
    for (const [name, task] of round % 2 === 0 ? tasks : [...tasks].toReversed()) {
      const count = repeats.get(name) ?? 1;
      found.get(name)?.push((elapsed(task, count) / count) * 1000);
    }
  }
  return new Map([...found].map(([name, values]) => [name, median(values)]));
}

function elapsed(task: () => void, count: number): number {
  const start = performance.now();
  for (let i = 0; i < count; i++) task();
  return performance.now() - start;
}
