/** Paints what changes faster than the eye can follow. */
export interface Painter {
  /** Paints at once, unless that was done a moment ago: then when that moment is over. */
  soon(): void;
  /** Paints at once. */
  now(): void;
}

/** The least time between two paints, in milliseconds. */
export const PAINT_MS = 50;

/** @param ms the least time between two paints that nothing but {@link Painter.soon} asks for. */
export function createPainter(paint: () => void, ms = PAINT_MS): Painter {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let paintedAt = -Infinity;
  const now = () => {
    clearTimeout(timer);
    timer = undefined;
    paintedAt = performance.now();
    paint();
  };
  return {
    soon() {
      timer ??= setTimeout(now, Math.max(0, paintedAt + ms - performance.now()));
    },
    now,
  };
}
