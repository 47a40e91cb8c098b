declare const performance: { readonly timeOrigin: number; now(): number };
declare function setTimeout(task: () => void, ms: number): unknown;
declare function clearTimeout(timer: unknown): void;
declare function setInterval(task: () => void, ms: number): unknown;
declare function clearInterval(timer: unknown): void;

/** Time, monotonic and in milliseconds. */
export interface Clock {
  /** Unix milliseconds at reading 0. */
  readonly timeOrigin: number;
  now(): number;
  /** Runs `task` once after `ms`, or 24 days where that is longer; the returned function prevents it. */
  after(ms: number, task: () => void): () => void;
  /** Calls `handleTick` within about 100 ms, on a timer that all share. */
  soon(item: Sweepable): void;
  /** Resolves once the event loop has looked after everybody else. */
  yield(): Promise<void>;
}

/** The clock and the timers that Node, browsers and workers share. */
export const systemClock: Clock = {
  timeOrigin: performance.timeOrigin,
  now: () => performance.now(),
  after(ms, task) {
    const timer = setTimeout(task, Math.min(ms, MAX_DELAY_MS));
    return () => clearTimeout(timer);
  },
  soon(item) {
    due.add(item);
    if (isArmed) return;
    isArmed = true;
    unref(setTimeout(strike, SHORT_TICK_MS));
  },
  // Node's setImmediate has no minimum delay; browsers have none of their own that is faster.
  yield: () =>
    new Promise((resolve) => (immediate === undefined ? setTimeout(resolve, 0) : immediate(resolve))),
};
/** Platforms take longer delays for none at all. */
const MAX_DELAY_MS = 2 ** 31 - 1;
const immediate = (globalThis as { setImmediate?: (task: () => void) => unknown }).setImmediate;

/** Acknowledgements and batches of all sessions wait on one timer, armed only while any does. */
const SHORT_TICK_MS = 100;
let due = new Set<Sweepable>();
let isArmed = false;

function strike(): void {
  isArmed = false;
  const items = due;
  // Clearing one that has lived long makes V8 look whether to collect the whole heap.
  due = new Set();
  for (const item of items) tick(item);
}

/** One item that throws must not keep the others from their turn. */
function tick(item: Sweepable): void {
  try {
    item.handleTick();
  } catch (error) {
    item.crash(error);
  }
}

/** In Node a timer of ours alone keeps no process alive. */
function unref(timer: unknown): void {
  (timer as { unref?: () => void }).unref?.();
}

/** Anything with timers of its own that are looked at now and then. */
export interface Sweepable {
  handleTick(): void;
  /** Is told what `handleTick` has thrown. Never throws. */
  crash(error: unknown): void;
}

/** One timer for any number of sessions: re-arming one per message costs more than the message. */
export interface Sweep {
  add(item: Sweepable): void;
  delete(item: Sweepable): void;
  stop(): void;
}

/** @param intervalMs how late a timeout may be noticed. */
export function createSweep(intervalMs: number): Sweep {
  const items = new Set<Sweepable>();
  let timer: unknown;
  const stop = () => {
    if (timer !== undefined) clearInterval(timer);
    timer = undefined;
  };
  return {
    add(item) {
      items.add(item);
      if (timer !== undefined) return;
      timer = setInterval(() => {
        for (const each of items) tick(each);
      }, intervalMs);
      unref(timer);
    },
    delete(item) {
      items.delete(item);
      if (items.size === 0) stop();
    },
    stop,
  };
}
