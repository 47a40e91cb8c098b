import { ProtocolError } from '@parlance/protocol';
import { ENGINE_TIMEOUT_MS } from '../engine.js';
import { Deadlines, within } from '../late.js';

/** How long opening a connection may take, which is several questions one after the other, in milliseconds. */
export const OPEN_TIMEOUT_MS = 2 * ENGINE_TIMEOUT_MS;
/** After a connection could not be opened, in milliseconds: the first delay, which grows by itself, and the longest. */
const FIRST_RETRY_MS = 50;
const LAST_RETRY_MS = 1_000;
/** How a replica answers a write, also (before Redis 7) that of a script. */
const READ_ONLY = /(?:^|-)READONLY /;

/** One connection. It does not connect again by itself. */
export interface Wire {
  /** It can be used; rejects if it is lost before. */
  readonly ready: Promise<unknown>;
  /** It is the client of the application, which cannot be closed here. @default false */
  readonly isShared?: boolean | undefined;
  /** Set by its owner: it is lost. */
  onLost: (why: Error) => void;
  /** Ends it when what was sent is delivered. */
  close(): void;
  /** Ends it at once, so that what is not delivered yet is never delivered, if the client can do that. */
  cut(): void;
}

/** Commands of one kind that may be unanswered; with more, none is sent. */
export interface Lane {
  readonly max: number;
  unanswered: number;
}

/** The connection of the moment. */
class Present<W extends Wire> {
  /** It is being opened, or is open. */
  wire: W | undefined;
  isOpen = false;
  isOver = false;
  /** Gives up opening it. */
  giveUp = (_why: Error): void => {};
  /** Reject what waits for an answer. */
  readonly pending = new Set<(why: Error) => void>();
  /** Resolves when this side has loaded its modules, which may take a while. */
  readonly begun: Promise<void>;
  readonly opened: Promise<W>;

  constructor(begin: (present: Present<W>) => Promise<void>, open: (present: Present<W>) => Promise<W>) {
    this.begun = begin(this);
    this.opened = open(this);
    this.begun.catch(() => {});
    this.opened.catch(() => {});
  }
}

export interface RedisConnectionOptions<W extends Wire> {
  /** Begins to open one. */
  readonly open: () => Promise<W>;
  /** One that was open is lost or was closed because it was silent; the next command opens another one. */
  readonly onReplaced?: (() => void) | undefined;
}

/**
 * A connection that is closed as soon as one command was not answered in time, and opened again with the next command. Such a
 * command may have been executed, or may be executed later still.
 */
export class RedisConnection<W extends Wire> {
  readonly #options: RedisConnectionOptions<W>;
  #present: Present<W> | undefined;
  #hasBeenOpen = false;
  #failures = 0;
  #retryAt = 0;
  #lastFailure: Error | undefined;
  #isClosed = false;
  readonly #deadlines = new Deadlines();

  constructor(options: RedisConnectionOptions<W>) {
    this.#options = options;
  }

  /** The one that commands are sent on, if it is open. */
  get wire(): W | undefined {
    return this.#present?.isOpen === true ? this.#present.wire : undefined;
  }

  /**
   * Sends a command. It waits {@link ENGINE_TIMEOUT_MS} at most for a connection, or until the first one is open or has failed,
   * and then `withinMs` for the answer.
   *
   * @param ask sends it.
   * @throws {ProtocolError} `timeout`, also if there are too many in the lane; what opening the connection or `ask` throws.
   */
  async run<T>(lane: Lane, ask: (wire: W) => Promise<T>, withinMs: number = ENGINE_TIMEOUT_MS): Promise<T> {
    if (lane.unanswered >= lane.max)
      throw new ProtocolError('timeout', 'Redis has not answered earlier commands');
    lane.unanswered++;
    let isCounted = true;
    const leave = (): void => {
      if (isCounted) lane.unanswered--;
      isCounted = false;
    };
    let wire: W | undefined;
    try {
      const present = this.#dial();
      const opened = present.isOpen ? (present.wire as W) : await this.#opened(present);
      wire = opened;
      const answer = (async () => await ask(opened))();
      answer.then(leave, leave);
      return await this.#answered(present, answer, withinMs);
    } catch (error) {
      // A client of the application holds it still, and may send it still.
      if (wire?.isShared !== true) leave();
      throw error;
    }
  }

  /** Ends the connection when what was sent is delivered. */
  close(): void {
    this.#isClosed = true;
    const present = this.#present;
    if (present === undefined) return;
    this.#end(present, closed());
    if (present.isOpen) present.wire?.close();
    else present.wire?.cut();
  }

  async #opened({ begun, opened }: Present<W>): Promise<W> {
    await Promise.race([begun, opened]);
    return this.#hasBeenOpen ? await within(opened, ENGINE_TIMEOUT_MS, tooLate) : await opened;
  }

  #answered<T>(present: Present<W>, answer: Promise<T>, withinMs: number): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const settle = (): void => {
        present.pending.delete(fail);
        isInTime();
      };
      const fail = (why: Error): void => {
        settle();
        reject(why);
      };
      const isInTime = this.#deadlines.add(withinMs, () => {
        const why = tooLate(withinMs);
        if (present.wire?.isShared !== true) this.#drop(present, why);
        fail(why);
      });
      present.pending.add(fail);
      answer.then(
        (value) => {
          settle();
          resolve(value);
        },
        (error: Error) => {
          if (READ_ONLY.test(error?.message) && present.wire?.isShared !== true) this.#leave(present, error);
          fail(error);
        },
      );
    });
  }

  /** @throws what the last attempt has failed with, until it is time for the next one. */
  #dial(): Present<W> {
    if (this.#isClosed) throw closed();
    if (this.#present !== undefined) return this.#present;
    if (this.#lastFailure !== undefined && performance.now() < this.#retryAt) throw this.#lastFailure;
    this.#present = new Present(
      (present) => this.#begin(present),
      (present) => this.#open(present),
    );
    return this.#present;
  }

  async #open(present: Present<W>): Promise<W> {
    try {
      const givenUp = new Promise<never>((_resolve, reject) => {
        present.giveUp = reject;
      });
      await Promise.race([present.begun, givenUp]);
      await within(Promise.race([present.wire?.ready, givenUp]), OPEN_TIMEOUT_MS, tooLate);
      if (present.isOver || present.wire === undefined) throw closed();
      present.isOpen = true;
      this.#hasBeenOpen = true;
      this.#failures = 0;
      this.#lastFailure = undefined;
      return present.wire;
    } catch (error) {
      this.#end(present, closed());
      present.wire?.cut();
      this.#failures++;
      this.#retryAt = performance.now() + Math.min(FIRST_RETRY_MS * this.#failures, LAST_RETRY_MS);
      this.#lastFailure = error as Error;
      throw error;
    }
  }

  async #begin(present: Present<W>): Promise<void> {
    const wire = await this.#options.open();
    present.wire = wire;
    wire.onLost = (why) => this.#drop(present, why);
    // It was given up.
    if (present.isOver) wire.cut();
  }

  /** It was silent for too long, or is lost. One that is not open yet fails by itself. */
  #drop(present: Present<W>, why: Error): void {
    if (present.isOver || !present.isOpen) return;
    this.#end(present, why);
    present.wire?.cut();
    this.#options.onReplaced?.();
  }

  /** Its server has become a replica; the address may lead to another one. */
  #leave(present: Present<W>, why: Error): void {
    if (present.isOver) return;
    this.#lastFailure = why;
    this.#retryAt = performance.now() + LAST_RETRY_MS;
    this.#drop(present, why);
  }

  #end(present: Present<W>, why: Error): void {
    present.isOver = true;
    if (this.#present === present) this.#present = undefined;
    present.giveUp(why);
    for (const fail of [...present.pending]) fail(why);
  }
}

const tooLate = (ms: number) => new ProtocolError('timeout', `Redis did not answer within ${ms} ms`);
const closed = () => new ProtocolError('connection_failed', 'Redis: the connection was closed');
