declare const performance: { now(): number };
declare function setTimeout(task: () => void, ms: number): unknown;
declare function clearTimeout(timer: unknown): void;
declare function setInterval(task: () => void, ms: number): unknown;
declare function clearInterval(timer: unknown): void;

/** Monotonic time in milliseconds, and timers. */
export interface Clock {
  /**
   * The milliseconds to add to a reading of `now()` for Unix time. They change if the clock of the machine is set, and while
   * the machine sleeps if `now()` stands still then.
   */
  readonly timeOrigin: number;
  now(): number;
  /** Runs `task` once after `ms`, but after 24 days at most. The returned function cancels it. */
  after(ms: number, task: () => void): () => void;
  /** Calls `handleTick` within about 100 ms, on a timer shared by all items. */
  soon(item: Sweepable): void;
  /** Resolves after the event loop has run other tasks. */
  yield(): Promise<void>;
}

/** The clock and timers of Node, browsers and workers. */
export const systemClock: Clock = {
  get timeOrigin() {
    return Date.now() - performance.now();
  },
  now: () => performance.now(),
  after(ms, task) {
    const timer = setTimeout(task, Math.min(ms, MAX_DELAY_MS));
    return () => clearTimeout(timer);
  },
  soon(item) {
    due.add(item);
    if (armedWith === setTimeout) return;
    armedWith = setTimeout;
    const dueAt = performance.now() + SHORT_TICK_MS;
    unref(setTimeout(() => afterReading(dueAt, runDue), SHORT_TICK_MS));
  },
  // Node's `setImmediate` has no minimum delay; browsers have nothing faster than `setTimeout`.
  yield: () =>
    new Promise((resolve) => (immediate === undefined ? setTimeout(resolve, 0) : immediate(resolve))),
};
/** Platforms treat a longer delay as 0. */
const MAX_DELAY_MS = 2 ** 31 - 1;
const immediate = (globalThis as { setImmediate?: (task: () => void) => unknown }).setImmediate;

/** Acknowledgements and batches of all sessions share one timer, which runs only while any of them waits. */
const SHORT_TICK_MS = 100;
let due = new Set<Sweepable>();
/** The function that has set this timer. Tests replace it, and when they give it back, timers of theirs never run. */
let armedWith: unknown;

function runDue(): void {
  armedWith = undefined;
  const items = due;
  // Replace the set: clearing a long-lived one makes V8 consider a major garbage collection.
  due = new Set();
  for (const item of items) tick(item);
}

/**
 * Runs a task that was due at `dueAt`. A process that stood still until much later reads first what has arrived meanwhile: it must not
 * take its own silence for that of its peers.
 */
function afterReading(dueAt: number, task: () => void): void {
  if (performance.now() < dueAt + STILL_MS) task();
  else void systemClock.yield().then(task);
}
const STILL_MS = 1_000;

/** An item that throws must not keep the others from their tick. */
function tick(item: Sweepable): void {
  try {
    item.handleTick();
  } catch (error) {
    item.crash(error);
  }
}

/** These timers alone do not keep a Node process alive. */
function unref(timer: unknown): void {
  (timer as { unref?: () => void }).unref?.();
}

/** Anything whose own deadlines are checked on a shared timer. */
export interface Sweepable {
  handleTick(): void;
  /** Receives the error that `handleTick` threw. Must not throw. */
  crash(error: unknown): void;
}

/** One timer for any number of sessions: re-arming one per message would cost more than the message. */
export interface Sweep {
  add(item: Sweepable): void;
  delete(item: Sweepable): void;
  stop(): void;
}

/** @param intervalMs how late a timeout may be noticed. */
export function createSweep(intervalMs: number): Sweep {
  const items = new Set<Sweepable>();
  let timer: unknown;
  let startedWith: unknown;
  let dueAt = 0;
  const sweep = () => {
    for (const each of items) tick(each);
  };
  const stop = () => {
    clearInterval(timer);
    startedWith = undefined;
  };
  return {
    add(item) {
      items.add(item);
      // As with `armedWith`, the timer may be one of a test that is over.
      if (startedWith === setInterval) return;
      stop();
      startedWith = setInterval;
      dueAt = performance.now() + intervalMs;
      timer = setInterval(() => {
        afterReading(dueAt, sweep);
        dueAt = performance.now() + intervalMs;
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
