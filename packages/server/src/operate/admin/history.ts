import type { Point } from './points.js';

/** Points that are kept of the last hour, one each {@link SAMPLE_MS}. */
const FINE = 720;
export const SAMPLE_MS = 5_000;
/** Points that are kept since the start; half as many when they are too many. */
const COARSE = 720;
/** Points of one answer. */
const SHOWN = 360;

/** Points of a server since its start: each five seconds of the last hour, and less often before. */
export class History {
  readonly #fine: Point[] = [];
  #coarse: Point[] = [];
  /** Each so-many-th point is a coarse one. */
  #step = 1;
  #count = 0;

  add(point: Point): void {
    this.#fine.push(point);
    if (this.#fine.length > FINE) this.#fine.shift();
    if (this.#count++ % this.#step !== 0) return;
    this.#coarse.push(point);
    if (this.#coarse.length < COARSE) return;
    this.#coarse = this.#coarse.filter((_point, i) => i % 2 === 0);
    this.#step *= 2;
  }

  /** At most 360 points, oldest first; the newest is among them. @param since Unix milliseconds. */
  from(since: number): readonly Point[] {
    const first = this.#fine[0]?.at ?? Infinity;
    const points = [...this.#coarse.filter(({ at }) => at < first), ...this.#fine].filter(
      ({ at }) => at >= since,
    );
    const step = Math.ceil(points.length / SHOWN);
    return points.filter((_point, i) => (points.length - 1 - i) % step === 0);
  }
}
