import { isUpstreamError, type Point, upstreamSince } from '../../../server/src/operate/admin/figures.js';

/** The past that the page knows: of this process of the server, and of those before it. */

/** Points that are kept, and at most shown. */
const KEPT = 3_000;
const SHOWN = 240;

/** The past as lines: a value for each time, `null` where nothing is known. */
export interface Lines {
  /** Seconds since 1970. */
  readonly at: readonly number[];
  readonly live: readonly (number | null)[];
  readonly away: readonly (number | null)[];
  /** Per second, since the value before. */
  readonly wire: readonly (number | null)[];
  readonly content: readonly (number | null)[];
  readonly requests: readonly (number | null)[];
  /** Of an upstream, per second. */
  readonly errors: readonly (number | null)[];
  /** Replies that have begun since the value before, by bucket. */
  readonly first: readonly (readonly number[] | null)[];
  /** Connections that were lost since the value before, and that have come back. */
  readonly cuts: readonly number[];
  readonly backs: readonly number[];
}

export class Trail {
  #points: Point[] = [];

  get points(): readonly Point[] {
    return this.#points;
  }

  /** Takes what the server remembers. @param points oldest first. */
  load(points: readonly Point[]): void {
    const [first] = points;
    if (first === undefined) return;
    const older = this.#points.filter(({ at }) => at < first.at);
    const newer = this.#points.filter(({ at }) => at > (points.at(-1)?.at ?? 0));
    this.#points = [...older, ...points, ...newer];
  }

  add(point: Point): void {
    if (point.at <= (this.#points.at(-1)?.at ?? 0)) return;
    this.#points.push(point);
    if (this.#points.length <= KEPT) return;
    const half = KEPT / 2;
    this.#points = this.#points.filter((_point, i) => i >= half || i % 2 === 0);
  }

  /** @param rangeMs before the newest point. */
  lines(rangeMs: number): Lines {
    const newest = this.#points.at(-1)?.at ?? 0;
    const inRange = this.#points.filter(({ at }) => at >= newest - rangeMs);
    const step = Math.max(1, Math.ceil(inRange.length / SHOWN));
    const points = inRange.filter((_point, i) => (inRange.length - 1 - i) % step === 0);
    const pairs = points.map((now, i) => {
      const before = points[i - 1];
      // Counts of another process began at 0.
      return { now, before: before?.startedAt === now.startedAt ? before : undefined };
    });
    const rate = (of: (point: Point, before: Point) => number) =>
      pairs.map(({ now, before }) =>
        before === undefined ? null : (Math.max(0, of(now, before)) * 1000) / (now.at - before.at),
      );
    const grown = (of: (point: Point) => number) =>
      pairs.map(({ now, before }) => (before === undefined ? 0 : Math.max(0, of(now) - of(before))));
    return {
      at: points.map(({ at }) => at / 1000),
      live: points.map(({ connected }) => connected),
      away: points.map(({ suspended }) => suspended),
      wire: rate((now, before) => now.wire - before.wire),
      content: rate((now, before) => now.content - before.content),
      requests: rate((now, before) => now.requests - before.requests),
      errors: rate((now, before) =>
        upstreamSince(now, before)
          .filter(([key]) => isUpstreamError(key))
          .reduce((sum, [, count]) => sum + count, 0),
      ),
      first: pairs.map(({ now, before }) =>
        before === undefined ? null : now.first.map((count, i) => count - (before.first[i] ?? 0)),
      ),
      cuts: grown(({ resumed, lost, left, suspended }) => resumed + lost + left + suspended),
      backs: grown(({ resumed }) => resumed),
    };
  }
}
