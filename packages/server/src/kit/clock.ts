import { ProtocolError } from '@parlance/protocol';

/**
 * Virtual time for a process: timers and clocks stand still until a test lets time pass. It replaces `setTimeout`,
 * `setInterval`, the functions that clear them, `Date.now` and `performance.now`, so it holds for handlers as well.
 * `setImmediate`, promises and I/O continue in real time.
 */

interface Timer {
  at: number;
  /** Milliseconds until it runs again; `undefined` for once. */
  readonly every: number | undefined;
  readonly delay: number;
  readonly run: () => void;
}

/** Stands for a timer, with the methods that code uses of Node's own timers. */
class Handle {
  readonly #clock: VirtualClock;
  readonly timer: Timer;

  constructor(clock: VirtualClock, timer: Timer) {
    this.#clock = clock;
    this.timer = timer;
  }
  ref(): this {
    return this;
  }
  unref(): this {
    return this;
  }
  hasRef(): boolean {
    return true;
  }
  refresh(): this {
    this.timer.at = this.#clock.now + this.timer.delay;
    this.#clock.add(this.timer);
    return this;
  }
  close(): void {
    this.#clock.delete(this.timer);
  }
  [Symbol.dispose](): void {
    this.close();
  }
}

/** Runs of timers in one call of {@link VirtualClock.advance}, against timers that never let time pass. */
const MAX_RUNS = 1_000_000;

export class VirtualClock {
  /** Milliseconds that have passed. */
  now = 0;
  readonly #timers = new Set<Timer>();
  readonly #settle: () => Promise<void>;
  #restore: (() => void) | undefined;

  /** @param settle resolves when everything that could happen at this instant has happened. */
  constructor(settle: () => Promise<void>) {
    this.#settle = settle;
  }

  add(timer: Timer): void {
    // A timer that is set again comes after those that are due at the same time.
    this.#timers.delete(timer);
    this.#timers.add(timer);
  }
  delete(timer: Timer): void {
    this.#timers.delete(timer);
  }

  /** Runs every timer that falls due within `ms`, in order, and lets everything happen that follows from it. */
  async advance(ms: number): Promise<void> {
    if (!(ms >= 0 && Number.isFinite(ms))) {
      throw new ProtocolError('invalid_argument', `advance: expected milliseconds, not ${ms}`);
    }
    const end = this.now + ms;
    await this.#settle();
    for (let runs = 0; ; runs++) {
      const due = this.#next(end);
      if (due === undefined) break;
      if (runs >= MAX_RUNS)
        throw new ProtocolError('invalid_argument', 'advance: timers set themselves without end');
      this.now = Math.max(this.now, due.at);
      if (due.every === undefined) this.#timers.delete(due);
      else {
        due.at = this.now + due.every;
        this.add(due);
      }
      due.run();
      await this.#settle();
    }
    this.now = Math.max(this.now, end);
  }

  #next(end: number): Timer | undefined {
    let first: Timer | undefined;
    for (const timer of this.#timers)
      if (timer.at <= end && (first === undefined || timer.at < first.at)) first = timer;
    return first;
  }

  /** Replaces the timers of the process. */
  install(): void {
    const { setTimeout, setInterval, clearTimeout, clearInterval } = globalThis;
    const [dateNow, performanceNow] = [Date.now, performance.now];
    // A whole number, so that differences are exact.
    const [date, time] = [Date.now(), Math.ceil(performance.now())];
    const start =
      (isRepeated: boolean) =>
      (task: (...args: unknown[]) => void, ms: unknown = 0, ...args: unknown[]) => {
        // As timers do: at least a millisecond, and nonsense is one.
        const given = Number(ms);
        const delay = given >= 1 && given <= MAX_DELAY ? given : 1;
        const timer: Timer = {
          at: this.now + delay,
          every: isRepeated ? delay : undefined,
          delay,
          run: () => task(...args),
        };
        this.add(timer);
        return new Handle(this, timer);
      };
    const stop = (original: (timer: never) => void) => (timer: unknown) => {
      if (timer instanceof Handle) timer.close();
      else original(timer as never);
    };
    Object.assign(globalThis, {
      setTimeout: start(false),
      setInterval: start(true),
      clearTimeout: stop(clearTimeout),
      clearInterval: stop(clearInterval),
    });
    Date.now = () => Math.floor(date + this.now);
    performance.now = () => time + this.now;
    this.#restore = () => {
      Object.assign(globalThis, { setTimeout, setInterval, clearTimeout, clearInterval });
      Date.now = dateNow;
      performance.now = performanceNow;
    };
  }

  /** Gives the process its timers back. Those of virtual time never run. */
  uninstall(): void {
    this.#restore?.();
    this.#restore = undefined;
    this.#timers.clear();
  }
}

const MAX_DELAY = 2 ** 31 - 1;
