import type { ProtocolError } from '../../base/errors.js';
import { overBudget, type Reservation, type SessionMemory } from '../../base/memory.js';
import type { ReceivedBody } from '../../codec/body.js';
import type { SessionEvent } from '../../session/types.js';

/** Events with a body that is decoded at this end, and the end of the streams that they belong to. */
export type IntakeEvent = Extract<
  SessionEvent,
  { type: 'message' | 'request' | 'part' | 'response' | 'end' | 'failure' }
>;

export type BodyEvent = Extract<IntakeEvent, { body: ReceivedBody }>;

export interface IntakeOptions {
  /** Asked for when something is to be charged. */
  readonly memory: () => SessionMemory;
  readonly now: () => number;
  /** Bytes that the body of an event takes from here on; 0 for a small one. */
  readonly memoryOf: (event: BodyEvent) => number;
  /** @param reservation of the memory that the body of the event takes, if it takes any. */
  readonly deliver: (event: IntakeEvent, reservation: Reservation | undefined) => void;
  /** There is no memory for an event. What follows on its stream is delivered all the same. */
  readonly refuse: (event: IntakeEvent, error: ProtocolError) => void;
}

/**
 * Holds bodies back until there is memory for what they are decoded to. They wait coded, without credit and in
 * the order of their stream; small ones on other streams pass by.
 */
export class Intake {
  readonly #options: IntakeOptions;
  /** By stream; nothing waits most of the time. */
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
    // A request in context had to be decoded to be received, so that waiting would save no memory.
    if (event.type === 'request' && event.body.content !== undefined) return refuse(event, overBudget());
    this.#wait(event, size);
  }

  /** Whether anything of a stream waits. */
  has(streamId: number): boolean {
    return this.#waiting?.has(streamId) ?? false;
  }

  /** The peer does not want what waits on a stream any more. Returns the charges of its bodies; `undefined` if nothing waits. */
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
