import type { ProtocolError } from '../../base/errors.js';
import { overBudget, type Reservation, type SessionMemory } from '../../base/memory.js';
import type { ReceivedBody } from '../../codec/body.js';
import type { SessionEvent } from '../../session/types.js';

/** Events with a body that this end decodes, and the ends of their streams. */
export type IntakeEvent = Extract<
  SessionEvent,
  { type: 'message' | 'request' | 'part' | 'response' | 'end' | 'failure' }
>;

export type BodyEvent = Extract<IntakeEvent, { body: ReceivedBody }>;

export interface IntakeOptions {
  /** Called when memory is needed. */
  readonly memory: () => SessionMemory;
  readonly now: () => number;
  /** Bytes of memory that the body of an event needs; 0 for a small one, which is not counted. */
  readonly memoryOf: (event: BodyEvent) => number;
  /** @param reservation memory for the body of the event, if it needs any. */
  readonly deliver: (event: IntakeEvent, reservation: Reservation | undefined) => void;
  /** There is no memory for an event. Later events of its stream are still delivered. */
  readonly refuse: (event: IntakeEvent, error: ProtocolError) => void;
}

/**
 * Holds bodies back until there is memory to decode them. They wait in their coded form, without returning
 * credit, and in the order of their stream. Small bodies on other streams overtake them.
 */
export class Intake {
  readonly #options: IntakeOptions;
  /** By stream. */
  #waiting: Map<number, Set<Waiting>> | undefined;

  constructor(options: IntakeOptions) {
    this.#options = options;
  }

  take(event: IntakeEvent): void {
    const { memory, memoryOf, deliver, refuse } = this.#options;
    const size = 'body' in event ? memoryOf(event) : 0;
    if (this.#waiting?.has(streamOf(event))) return this.#wait(event, size);
    if (size === 0) return deliver(event, undefined);
    const reservation = memory().tryReserve(size);
    if (reservation !== undefined) return deliver(event, reservation);
    // A context-coded request was decoded when it arrived, so waiting would not save memory.
    if (event.type === 'request' && event.body.content !== undefined) return refuse(event, overBudget());
    this.#wait(event, size);
  }

  get isEmpty(): boolean {
    return (this.#waiting?.size ?? 0) === 0;
  }

  /** Whether an event of a stream waits. */
  has(streamId: number): boolean {
    return this.#waiting?.has(streamId) ?? false;
  }

  /**
   * Drops the waiting events of a cancelled stream. Returns the charges of their bodies; `undefined` if none
   * waits.
   */
  drop(streamId: number): number | undefined {
    const waiting = this.#waiting?.get(streamId);
    if (waiting === undefined) return undefined;
    this.#waiting?.delete(streamId);
    let charge = 0;
    for (const { event, entry } of waiting) {
      entry?.release();
      if ('body' in event) charge += event.body.charge;
    }
    return charge;
  }

  #wait(event: IntakeEvent, size: number): void {
    const { memory, now, deliver, refuse } = this.#options;
    const streamId = streamOf(event);
    const waiting: Waiting = { event, entry: undefined };
    this.#waiting ??= new Map();
    const others = this.#waiting.get(streamId);
    if (others === undefined) this.#waiting.set(streamId, new Set([waiting]));
    else others.add(waiting);
    waiting.entry = memory().queue(size, {
      now: now(),
      begin: (reservation) => {
        this.#forget(streamId, waiting);
        deliver(event, reservation);
      },
      // One-way messages are never dropped.
      refuse:
        event.type === 'message'
          ? undefined
          : (error) => {
              this.#forget(streamId, waiting);
              refuse(event, error);
            },
    });
  }

  #forget(streamId: number, waiting: Waiting): void {
    const others = this.#waiting?.get(streamId);
    others?.delete(waiting);
    if (others?.size === 0) this.#waiting?.delete(streamId);
  }
}

interface Waiting {
  readonly event: IntakeEvent;
  entry: Reservation | undefined;
}

const streamOf = (event: IntakeEvent): number => (event.type === 'message' ? 0 : event.streamId);
