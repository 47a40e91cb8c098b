/**
 * The best of several times for each of many tasks: what other processes of the machine cost comes and goes,
 * what the task costs is there every time. Nothing but plain arithmetic, as a page uses it too.
 */
export class BestTimes {
  readonly #best: number[] = [];

  add(task: number, time: number): void {
    this.#best[task] = Math.min(this.#best[task] ?? Infinity, time);
  }

  /** Of all tasks that were timed. */
  median(): number {
    const sorted = this.#best.filter(Number.isFinite).sort((a, b) => a - b);
    return sorted[sorted.length >> 1] ?? Number.NaN;
  }
}
