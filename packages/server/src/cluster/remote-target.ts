import type { BodyToSend, OutgoingTransfer } from '@parlance/protocol';
import type { RelayChannel, RelayTarget } from '../agents/target.js';
import { bodyParts, chargeOf } from './relay-message.js';
import {
  type RemoteAgent,
  type RemoteHost,
  RemoteSession,
  type RemoteWire,
  UNUSED,
  type UnderWay,
} from './remote-session.js';

export interface TargetHost extends RemoteHost {
  /** A number for a request, which no other one of this node has. */
  newRef(): number;
}

/** The way to the node of a session. */
export interface Route {
  /** The connection to the node, which may be opened by this. */
  connect(target: RemoteTarget): TargetWire;
  /** The connection, if there is one. */
  readonly wire: TargetWire | undefined;
}

export interface TargetWire extends RemoteWire {
  /** The number of a sender on this connection, which this introduces. */
  numberOf(source: RelayTarget): number;
  /** A request of `source` to `target` has this number. */
  open(ref: number, target: RemoteTarget, source: RelayTarget): void;
  /** A sender is over. */
  handleEnded(source: RelayTarget): void;
}

interface Asked {
  /** `undefined` while it is held. */
  wire: TargetWire | undefined;
  readonly underWay: UnderWay[];
  /** Of a tensor, bytes that are not written. */
  left: number;
  readonly onLast: ((frame: number) => void) | undefined;
}

/** A connection on which messages went, whose counts begin at `base`. */
interface Leg {
  readonly wire: TargetWire;
  readonly base: number;
}

/** What the end of a connection means for a target that has used it. */
export type Loss =
  /** Nothing is under way any more. */
  | 'all'
  /** Only the requests of the connection are lost, and so many of the oldest messages. */
  | {
      readonly messages: number;
      /** Messages that were confirmed before. */
      readonly confirmed: number;
    };

/**
 * Stands for an agent of another node, to which agents of this node write.
 *
 * When its session moves, it takes another route. What is new waits until all that went the old way is written, so that
 * nothing overtakes it.
 */
export class RemoteTarget extends RemoteSession {
  readonly #targetHost: TargetHost;
  readonly #asked = new Map<number, Asked>();
  #route: Route | undefined;
  /** Taken as soon as nothing is under way on the present route. */
  #next: Route | undefined;
  #held: (() => void)[] = [];
  /** Messages that its node has not written, by their numbers. */
  #unwritten: { readonly number: number; readonly onWritten: ((frame: number) => void) | undefined }[] = [];
  #lastMessage = 0;
  #written = 0;
  #confirmed = 0;
  /** Where the next connection begins to count. */
  #base = 0;
  #leg: Leg | undefined;
  #former: Leg | undefined;
  #source: RelayTarget | undefined;
  /** Called when a new route is taken, or nothing is under way on it any more. */
  onSettled: (() => void) | undefined;

  /** @param route `undefined` holds what is for it until {@link reroute}. */
  constructor(agent: RemoteAgent, host: TargetHost, route: Route | undefined) {
    super(agent, host);
    this.#targetHost = host;
    this.#route = route;
  }

  /** @param source whose body the command sends. */
  override perform<Result>(command: (core: RelayTarget['core']) => Result, source?: RelayTarget): Result {
    this.#source = source;
    try {
      return command(this.core);
    } finally {
      this.#source = undefined;
    }
  }

  protected createChannel(): RelayChannel {
    const confirmed = () => this.#confirmed;
    return {
      ...UNUSED,
      get framesConfirmed() {
        return confirmed();
      },
      send: (body) => this.#send(body, this.#source as RelayTarget),
      request: (body) => this.#request(body, this.#source as RelayTarget),
      transfer: (transfer) => this.#transfer(transfer, this.#source as RelayTarget),
      feed: (ref, bytes, onWritten) => this.#feed(ref, bytes, onWritten),
      cancel: (ref) => this.#tell('cancel', ref),
      consume: (ref, charge) => {
        this.#tell('read', ref, charge);
        return false;
      },
    };
  }

  // --- the route

  get #isHeld(): boolean {
    return this.#route === undefined || this.#next !== undefined;
  }

  /** There is no route yet, so nothing is under way. */
  get isHeld(): boolean {
    return this.#route === undefined;
  }

  /** Nothing is under way or waits. */
  get isIdle(): boolean {
    return !this.#isHeld && this.#isWritten && this.#asked.size === 0;
  }

  /** All that was sent is written. */
  get #isWritten(): boolean {
    if (this.#unwritten.length > 0) return false;
    for (const { wire, underWay } of this.#asked.values())
      if (wire !== undefined && underWay.length > 0) return false;
    return true;
  }

  /** The session is elsewhere. */
  reroute(route: Route): void {
    this.#next = route;
    this.#settle();
  }

  /**
   * What was held goes to the node that the session has moved to.
   *
   * @param written messages that were written to the session here, which that node counts as the first ones.
   */
  start(route: Route, written: number): void {
    this.#route = route;
    this.#written = written;
    if (written > 0) this.#leg = { wire: route.connect(this), base: 0 };
    for (const send of this.#held.splice(0)) send();
    this.#settle();
  }

  #settle(): void {
    if (this.#next !== undefined && this.#isWritten) {
      if (this.#leg !== undefined) {
        this.#former = this.#leg;
        this.#base = this.#written;
      }
      this.#leg = undefined;
      this.#route = this.#next;
      this.#next = undefined;
      for (const send of this.#held.splice(0)) send();
    }
    this.onSettled?.();
  }

  /** Calls `send` with the connection, now or when there is a route. */
  #through(source: RelayTarget, send: (wire: TargetWire, sender: number) => void): void {
    const go = () => {
      const wire = (this.#route as Route).connect(this);
      if (this.#leg?.wire !== wire) {
        this.#leg = { wire, base: this.#base };
        // It may have counted messages of an earlier time.
        wire.send('use', [this.id]);
      }
      send(wire, wire.numberOf(source));
      if (source.state === 'closed') wire.handleEnded(source);
    };
    if (this.#isHeld) this.#held.push(go);
    else go();
  }

  #send(body: BodyToSend, source: RelayTarget): void {
    const { fields, parts } = bodyParts(body);
    this.#through(source, (wire, sender) => {
      const number = ++this.#lastMessage;
      this.#unwritten.push({ number, onWritten: body.onWritten });
      wire.send('message', [sender, number, this.id, ...fields], ...parts);
    });
  }

  #request(body: BodyToSend, source: RelayTarget): number {
    const { fields, parts, charge } = bodyParts(body);
    const onWritten = () => body.onWritten?.(1);
    const asked = { wire: undefined, underWay: [{ charge, onWritten }], left: 0, onLast: undefined };
    return this.#open(asked, source, (wire, sender, ref) => {
      wire.send('request', [sender, ref, this.id, ...fields], ...parts);
    });
  }

  #transfer(
    { totalLength, first, onFirstWritten, onWritten }: OutgoingTransfer,
    source: RelayTarget,
  ): number {
    const underWay = [{ charge: chargeOf(first.length), onWritten: () => onFirstWritten?.() }];
    const asked = { wire: undefined, underWay, left: totalLength, onLast: onWritten };
    return this.#open(asked, source, (wire, sender, ref) => {
      wire.send('tensor', [sender, ref, this.id, totalLength], first);
    });
  }

  #open(
    asked: Asked,
    source: RelayTarget,
    send: (wire: TargetWire, sender: number, ref: number) => void,
  ): number {
    const ref = this.#targetHost.newRef();
    this.#asked.set(ref, asked);
    this.#through(source, (wire, sender) => {
      // Its sender has left while it was held.
      if (this.#asked.get(ref) !== asked) return;
      asked.wire = wire;
      wire.open(ref, this, source);
      send(wire, sender, ref);
    });
    return ref;
  }

  #feed(ref: number, bytes: Uint8Array, onWritten?: () => void): void {
    const asked = this.#asked.get(ref);
    if (asked === undefined) return;
    asked.underWay.push({ charge: chargeOf(bytes.length), onWritten: () => onWritten?.() });
    this.#later(asked, () => asked.wire?.send('piece', [ref], bytes));
  }

  #tell(type: 'cancel' | 'read', ref: number, ...fields: readonly number[]): void {
    const asked = this.#asked.get(ref);
    if (asked !== undefined) return this.#later(asked, () => asked.wire?.send(type, [ref, ...fields]));
    // It is answered. A node that does not know the number ignores it.
    this.#leg?.wire.send(type, [ref, ...fields]);
    this.#former?.wire.send(type, [ref, ...fields]);
  }

  /** Calls `send` after what begins the request was sent. */
  #later(asked: Asked, send: () => void): void {
    if (asked.wire === undefined) this.#held.push(send);
    else send();
  }

  // --- what its node says

  /** @param written messages that were written, of all that were not refused. @param confirmed of those. */
  handleWritten(wire: TargetWire, written: number, confirmed: number): void {
    this.handleConfirmed(wire, Math.min(confirmed, written));
    const base = this.#baseOf(wire);
    while (base !== undefined && this.#written < base + written) {
      const next = this.#unwritten.shift();
      if (next === undefined) break;
      next.onWritten?.(++this.#written);
    }
    this.#settle();
  }

  handleConfirmed(wire: TargetWire, confirmed: number): void {
    const base = this.#baseOf(wire);
    if (base === undefined || confirmed === 0) return;
    this.#confirmed = Math.max(this.#confirmed, base + confirmed);
  }

  #baseOf(wire: TargetWire): number | undefined {
    return [this.#leg, this.#former].find((leg) => leg?.wire === wire)?.base;
  }

  /** Returns the place of the message among those that are not written; -1 if it is none of them. */
  handleRefused(number: number): number {
    const place = this.#unwritten.findIndex((each) => each.number === number);
    if (place >= 0) this.#unwritten.splice(place, 1);
    queueMicrotask(() => this.#settle());
    return place;
  }

  /** The other node has written what cost so much. */
  handleCredit(ref: number, charge: number): void {
    const asked = this.#asked.get(ref);
    const first = asked?.underWay[0];
    if (asked === undefined || first === undefined || first.charge !== charge) return;
    asked.underWay.shift();
    first.onWritten();
    if (asked.onLast !== undefined) {
      asked.left -= charge - chargeOf(0);
      if (asked.left <= 0) asked.onLast(1);
    }
    this.#settle();
  }

  /** The request is over. */
  forget(ref: number): void {
    const asked = this.#asked.get(ref);
    this.#asked.delete(ref);
    // What its sender has written of a tensor that was refused is not under way any more.
    for (const { onWritten } of asked?.underWay ?? []) onWritten();
    this.#settle();
  }

  /** A connection is over. Afterwards the target knows nothing of what was on it. */
  handleLost(wire: TargetWire): Loss {
    if (this.#former?.wire === wire) {
      const end = this.#base;
      const confirmed = this.#confirmed;
      const messages = Math.max(0, end - confirmed);
      this.#confirmed = Math.max(this.#confirmed, end);
      this.#former = undefined;
      return { messages, confirmed };
    }
    if (this.#leg?.wire !== wire) return { messages: 0, confirmed: 0 };
    if (!this.#isHeld) return 'all';
    // What is held was never on it.
    const confirmed = this.#confirmed;
    const messages = this.#written - confirmed + this.#unwritten.length;
    this.#forgetCounts();
    queueMicrotask(() => this.#settle());
    return { messages, confirmed };
  }

  /** The session, or the only connection to its node, is over. */
  reset(): void {
    this.#held = [];
    this.closeIntake();
    for (const ref of [...this.#asked.keys()]) this.forget(ref);
    this.#forgetCounts();
    this.#settle();
  }

  #forgetCounts(): void {
    this.#unwritten = [];
    this.#written = 0;
    this.#confirmed = 0;
    this.#base = 0;
    this.#leg = undefined;
    this.#former = undefined;
  }
}
