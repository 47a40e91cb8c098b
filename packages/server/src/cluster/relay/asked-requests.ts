import { chargeOf } from './messages.js';
import type { RemoteWire, UnderWay } from './remote-session.js';

/** A request to a session of another node. */
export interface Asked {
  /** `undefined` while it is held. */
  wire: RemoteWire | undefined;
  readonly underWay: UnderWay[];
  /** Of a tensor, bytes that are not written. */
  left: number;
  readonly onLast: ((frame: number) => void) | undefined;
  /** Credit of replies that have come and are not written. */
  owed: number;
}

/** Requests to one session of another node, and the credit of what was sent and of the replies. */
export class AskedRequests {
  readonly #asked = new Map<number, Asked>();
  /** Requests that are over, but whose replies are not all written. */
  readonly #answered = new Map<number, Asked>();

  get size(): number {
    return this.#asked.size;
  }

  get refs(): readonly number[] {
    return [...this.#asked.keys()];
  }

  /** Those that are held. */
  get waiting(): readonly number[] {
    return [...this.#asked].flatMap(([ref, { wire }]) => (wire === undefined ? [ref] : []));
  }

  /** All that was sent is written. */
  get isWritten(): boolean {
    for (const { wire, underWay } of this.#asked.values())
      if (wire !== undefined && underWay.length > 0) return false;
    return true;
  }

  get(ref: number): Asked | undefined {
    return this.#asked.get(ref);
  }

  add(ref: number, asked: Asked): void {
    this.#asked.set(ref, asked);
  }

  /** A reply that costs so much has come. */
  owe(ref: number, charge: number): void {
    const asked = this.#asked.get(ref);
    if (asked !== undefined) asked.owed += charge;
  }

  /** It is written. */
  pay(ref: number, charge: number): void {
    const asked = this.#asked.get(ref) ?? this.#answered.get(ref);
    if (asked === undefined) return;
    asked.owed -= charge;
    asked.wire?.send('read', [ref, charge]);
    if (asked.owed <= 0) this.#answered.delete(ref);
  }

  /** The other node has written what cost so much. */
  handleCredit(ref: number, charge: number): void {
    const asked = this.#asked.get(ref);
    const first = asked?.underWay[0];
    if (asked === undefined || first === undefined || first.charge !== charge) return;
    asked.underWay.shift();
    first.onWritten();
    if (asked.onLast === undefined) return;
    asked.left -= charge - chargeOf(0);
    if (asked.left <= 0) asked.onLast(1);
  }

  /** The request is over. */
  forget(ref: number): void {
    const asked = this.#asked.get(ref);
    this.#asked.delete(ref);
    if (asked !== undefined && asked.owed > 0) this.#answered.set(ref, asked);
    // What its sender has written of a tensor that was refused is not under way any more.
    for (const { onWritten } of asked?.underWay ?? []) onWritten();
  }
}
