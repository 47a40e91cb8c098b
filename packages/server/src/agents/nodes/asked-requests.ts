import type { BodyToSend, OutgoingTransfer } from '@parlance/protocol';
import type { RelayTarget } from '../target.js';
import { bodyParts, chargeOf } from './messages.js';
import type { RemoteWire, UnderWay } from './remote-session.js';

export interface AskedHost {
  newRef(): number;
  /** Calls `send` now, or when the node of the session takes what is new, unless the request is not wanted by then. */
  begin(
    ref: number,
    asker: RelayTarget,
    isWanted: () => boolean,
    send: (wire: RemoteWire, way: number, sender: number) => void,
  ): void;
  /** Calls it after what has begun and is held. */
  hold(send: () => void): void;
}

/** A request to a session of another node. */
interface Asked {
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
  readonly #host: AskedHost;
  readonly #asked = new Map<number, Asked>();
  /** Requests that are over, but whose replies are not all written. */
  readonly #answered = new Map<number, Asked>();

  constructor(host: AskedHost) {
    this.#host = host;
  }

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

  request(body: BodyToSend, asker: RelayTarget): number {
    const { fields, parts, charge } = bodyParts(body);
    const onWritten = () => body.onWritten?.(1);
    const asked = { wire: undefined, underWay: [{ charge, onWritten }], left: 0, onLast: undefined, owed: 0 };
    return this.#begin(asked, asker, (ref, wire, way, sender) => {
      wire.send('request', [sender, ref, way, ...fields], ...parts);
    });
  }

  transfer({ totalLength, first, onFirstWritten, onWritten }: OutgoingTransfer, asker: RelayTarget): number {
    const underWay = [{ charge: chargeOf(first.length), onWritten: () => onFirstWritten?.() }];
    const asked = { wire: undefined, underWay, left: totalLength, onLast: onWritten, owed: 0 };
    return this.#begin(asked, asker, (ref, wire, way, sender) => {
      wire.send('tensor', [sender, ref, way, totalLength], first);
    });
  }

  #begin(
    asked: Asked,
    asker: RelayTarget,
    send: (ref: number, wire: RemoteWire, way: number, sender: number) => void,
  ): number {
    const ref = this.#host.newRef();
    this.#asked.set(ref, asked);
    const isWanted = () => this.#asked.get(ref) === asked;
    this.#host.begin(ref, asker, isWanted, (wire, way, sender) => {
      asked.wire = wire;
      send(ref, wire, way, sender);
    });
    return ref;
  }

  feed(ref: number, bytes: Uint8Array, onWritten?: () => void): void {
    const asked = this.#asked.get(ref);
    if (asked === undefined) return;
    asked.underWay.push({ charge: chargeOf(bytes.length), onWritten: () => onWritten?.() });
    this.#later(asked, () => asked.wire?.send('piece', [ref], bytes));
  }

  cancel(ref: number): void {
    const asked = this.#asked.get(ref);
    if (asked !== undefined) this.#later(asked, () => asked.wire?.send('cancel', [ref]));
  }

  /** Calls `send` after what begins the request was sent. */
  #later(asked: Asked, send: () => void): void {
    if (asked.wire === undefined) this.#host.hold(send);
    else send();
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
    // The bytes that the sender has written of a refused tensor are not under way any more.
    for (const { onWritten } of asked?.underWay ?? []) onWritten();
  }
}
