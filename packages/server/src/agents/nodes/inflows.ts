import { malformed } from '../../cluster/link/message.js';
import type { RelayMessageType } from './messages.js';

/** Ways of one node to sessions of this one. */
const MAX_WAYS = 200_000;

/** Messages of the other node to a session of this one. */
export interface Inflow {
  /** Number of its way. */
  way: number;
  readonly id: string;
  /** Whether the other node may send what is new, was asked not to, or does not. */
  access: 'open' | 'asked' | 'held';
  /** How often it was asked. */
  holds: number;
  /** Messages that still come are refused. */
  isCut: boolean;
  written: number;
  confirmed: number;
  toldConfirmed: number;
}

/** Messages that one other node has under way to sessions of this one, on one connection. */
export class Inflows {
  readonly #accessTo: (sessionId: string) => 'open' | 'held' | 'gone';
  readonly #send: (type: RelayMessageType, fields: readonly unknown[]) => void;
  readonly #onChange: (ways: number) => void;
  readonly #byWay = new Map<number, Inflow>();
  readonly #bySession = new Map<string, Set<Inflow>>();

  /** @param onChange called with how many ways are more, or less. */
  constructor(
    accessTo: (sessionId: string) => 'open' | 'held' | 'gone',
    send: (type: RelayMessageType, fields: readonly unknown[]) => void,
    onChange: (ways: number) => void,
  ) {
    this.#onChange = onChange;
    this.#accessTo = accessTo;
    this.#send = send;
  }

  get(way: number): Inflow | undefined {
    return this.#byWay.get(way);
  }

  /**
   * The other node asks whether it may write to a session. With the counts, `gone` is sent when the session ends.
   *
   * @param known what is known of messages to a session that has moved here.
   * @throws {ProtocolError} `bad_message` if the way is in use or there are too many.
   */
  use(way: number, id: string, known?: Inflow): void {
    if (this.#byWay.has(way) || this.#byWay.size >= MAX_WAYS) throw malformed();
    const access = this.#accessTo(id);
    if (access === 'gone') return this.#send('gone', [way, known?.confirmed ?? 0]);
    const inflow = known ?? newInflow(id, 0);
    inflow.way = way;
    inflow.access = access;
    this.#byWay.set(way, inflow);
    this.#onChange(1);
    const others = this.#bySession.get(id) ?? new Set();
    this.#bySession.set(id, others.add(inflow));
    if (access === 'open') this.#send('ready', [way]);
  }

  leave(way: number): void {
    const inflow = this.#byWay.get(way);
    if (inflow === undefined) return;
    this.#byWay.delete(way);
    this.#onChange(-1);
    const others = this.#bySession.get(inflow.id);
    others?.delete(inflow);
    if (others?.size === 0) this.#bySession.delete(inflow.id);
  }

  /** A session is over; the relay has ended what led to it. */
  end(id: string): void {
    const inflows = this.#bySession.get(id) ?? [];
    this.#bySession.delete(id);
    for (const { way, confirmed } of inflows) {
      this.#byWay.delete(way);
      this.#onChange(-1);
      this.#send('gone', [way, confirmed]);
    }
  }

  /** The other node is to begin again: a session is not here any more, and will be here or elsewhere. */
  beginAgain(id: string): void {
    const inflows = this.#bySession.get(id) ?? [];
    this.#bySession.delete(id);
    for (const { way } of inflows) {
      this.#byWay.delete(way);
      this.#onChange(-1);
      this.#send('again', [way]);
    }
  }

  /** The other node knows that all that was written is confirmed. */
  get isSettled(): boolean {
    for (const { written, toldConfirmed } of this.#byWay.values()) if (written > toldConfirmed) return false;
    return true;
  }

  /** Tells the other node what sessions have confirmed since. */
  tellConfirmed(): void {
    for (const [way, inflow] of this.#byWay) {
      if (inflow.confirmed === inflow.toldConfirmed) continue;
      inflow.toldConfirmed = inflow.confirmed;
      this.#send('confirmed', [way, inflow.confirmed]);
    }
  }

  // --- of sessions that move

  /** Asks the other node to send a session nothing that is new. @param isCut what it still sends is refused. */
  hold(id: string, isCut: boolean): void {
    for (const inflow of this.#bySession.get(id) ?? []) {
      inflow.isCut ||= isCut;
      if (inflow.access !== 'open') continue;
      inflow.access = 'asked';
      this.#send('hold', [inflow.way, ++inflow.holds]);
    }
  }

  handleHolding(way: number, holds: number): void {
    const inflow = this.#byWay.get(way);
    if (inflow?.access === 'asked' && inflow.holds === holds) inflow.access = 'held';
  }

  /** Nothing new for the session comes from the other node. */
  isHolding(id: string): boolean {
    for (const { access, isCut } of this.#bySession.get(id) ?? [])
      if (access !== 'held' && !isCut) return false;
    return true;
  }

  /** The session takes what is new again. */
  release(id: string): void {
    for (const inflow of this.#bySession.get(id) ?? []) {
      inflow.isCut = false;
      if (inflow.access === 'open') continue;
      inflow.access = 'open';
      this.#send('ready', [inflow.way]);
    }
  }
}

/** @param written messages that count as the first ones. */
export function newInflow(id: string, written: number): Inflow {
  const counts = { written, confirmed: 0, toldConfirmed: 0 };
  return { way: 0, id, access: 'held', holds: 0, isCut: false, ...counts };
}
