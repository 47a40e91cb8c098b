/**
 * The best of several times for each of many tasks: the cost of other processes comes and goes, the cost of
 * the task is always there. Plain arithmetic only, because a web page uses it too.
 */
export class BestTimes {
  readonly #best: number[] = [];

  add(task: number, time: number): void {
    this.#best[task] = Math.min(this.#best[task] ?? Infinity, time);
  }

  /** The median over all tasks. */
  median(): number {
    const sorted = this.#best.filter(Number.isFinite).sort((a, b) => a - b);
    return sorted[sorted.length >> 1] ?? Number.NaN;
  }
}
