import type { ProtocolError } from '@parlance/protocol';
import type { Reservation, SessionMemory } from '@parlance/protocol/internal';

export interface IntakeOptions {
  /** Opens the share of the memory that bodies of a session take while they are coded again. */
  readonly openMemory: () => SessionMemory;
  /** Clock reading in milliseconds. */
  readonly now: () => number;
}

interface Waiting {
  entry: Reservation | undefined;
}

/** Holds the bodies of one session back until there is memory to code them again. Each stream keeps its order. */
export class Intake {
  readonly #options: IntakeOptions;
  #memory: SessionMemory | undefined;
  /** By stream. */
  readonly #waiting = new Map<number, Set<Waiting>>();

  constructor(options: IntakeOptions) {
    this.#options = options;
  }

  /**
   * @param stream 0 for one-way messages.
   * @param size bytes of memory; 0 waits only for what is before it.
   * @param begin runs now or later, with the memory.
   * @param refuse runs if there was no memory in time. @default waits for as long as the session lives
   */
  take(
    stream: number,
    size: number,
    begin: (reservation: Reservation | undefined) => void,
    refuse?: (error: ProtocolError) => void,
  ): void {
    if (!this.#waiting.has(stream)) {
      if (size === 0) return begin(undefined);
      const reservation = this.#getMemory().tryReserve(size);
      if (reservation !== undefined) return begin(reservation);
    }
    this.#wait(stream, size, begin, refuse);
  }

  /** Drops the waiting pieces of a stream. */
  drop(stream: number): void {
    const waiting = this.#waiting.get(stream);
    this.#waiting.delete(stream);
    for (const { entry } of waiting ?? []) entry?.release();
  }

  /** Refuses bodies that have waited for too long. */
  handleTick(): void {
    this.#memory?.handleTick(this.#options.now());
  }

  /** The session is over, and so is what waits. */
  close(): void {
    this.#memory?.close();
    this.#waiting.clear();
  }

  #wait(
    stream: number,
    size: number,
    begin: (reservation: Reservation | undefined) => void,
    refuse: ((error: ProtocolError) => void) | undefined,
  ): void {
    const waiting: Waiting = { entry: undefined };
    const others = this.#waiting.get(stream) ?? new Set();
    this.#waiting.set(stream, others);
    others.add(waiting);
    const forget = () => {
      others.delete(waiting);
      if (others.size === 0 && this.#waiting.get(stream) === others) this.#waiting.delete(stream);
    };
    waiting.entry = this.#getMemory().queue(size, {
      now: this.#options.now(),
      begin: (reservation) => {
        forget();
        begin(reservation);
      },
      ...(refuse === undefined
        ? {}
        : {
            refuse: (error: ProtocolError) => {
              forget();
              refuse(error);
            },
          }),
    });
  }

  #getMemory(): SessionMemory {
    this.#memory ??= this.#options.openMemory();
    return this.#memory;
  }
}
