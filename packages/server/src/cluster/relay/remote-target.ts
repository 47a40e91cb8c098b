import type { BodyToSend, OutgoingTransfer } from '@parlance/protocol';
import type { RelayChannel, RelayTarget } from '../../agents/target.js';
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
  /** A number for a request or a way, which no other one of this node has. */
  newRef(): number;
}

/** The way to the node of a session. */
export interface Route {
  /** The connection to the node, which may be opened by this. */
  connect(): TargetWire;
}

export interface TargetWire extends RemoteWire {
  /** Names the way to a target, and asks whether the target may be written to. */
  use(way: number, target: RemoteTarget): void;
  /** The way is not used any more. */
  leave(way: number): void;
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
  /** Credit of replies that have come and are not written. */
  owed: number;
}

/** A way on which messages went, whose counts begin at `base`. */
interface Leg {
  readonly wire: TargetWire;
  readonly number: number;
  readonly base: number;
  /** Its node takes what is new. */
  isReady: boolean;
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
  /** Requests that are over, but whose replies are not all written. */
  readonly #answered = new Map<number, Asked>();
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
      cancel: (ref) => this.#cancel(ref),
      consume: (ref, charge) => {
        this.#pay(ref, charge);
        return false;
      },
    };
  }

  // --- the route

  get #isHeld(): boolean {
    return this.#next !== undefined || this.#leg?.isReady !== true;
  }

  /** There is no route yet, so nothing is under way. */
  get isHeld(): boolean {
    return this.#route === undefined;
  }

  /** Nothing is under way or waits. */
  get isIdle(): boolean {
    const isSettled = this.#route !== undefined && this.#next === undefined && this.#held.length === 0;
    return isSettled && this.#isWritten && this.#asked.size === 0;
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
   * @param number of the way that the account of the session names.
   * @param written messages that were written to the session here, which that node counts as the first ones.
   */
  start(route: Route, number: number, written: number): void {
    this.#route = route;
    this.#written = written;
    this.#leg = { wire: route.connect(), number, base: 0, isReady: false };
    this.#settle();
  }

  /** Asks the node of the session whether it may be written to. */
  #begin(route: Route): void {
    const number = this.#targetHost.newRef();
    const wire = route.connect();
    this.#leg = { wire, number, base: this.#base, isReady: false };
    wire.use(number, this);
  }

  /** What waits may go. */
  handleReady(number: number): void {
    if (this.#leg?.number !== number) return;
    this.#leg.isReady = true;
    if (this.#next === undefined) for (const send of this.#held.splice(0)) send();
    this.#settle();
  }

  /** What is new waits: the session may be about to move. */
  handleHold(number: number): void {
    if (this.#leg?.number === number) this.#leg.isReady = false;
  }

  #settle(): void {
    if (this.#next !== undefined && this.#isWritten) {
      if (this.#leg !== undefined) {
        this.#former?.wire.leave(this.#former.number);
        this.#former = this.#leg;
        this.#base = this.#written;
      }
      this.#leg = undefined;
      this.#route = this.#next;
      this.#next = undefined;
      if (this.#held.length > 0) this.#begin(this.#route);
    }
    this.onSettled?.();
  }

  /** Calls `send` with the connection, now or when the node of the session takes what is new. */
  #through(source: RelayTarget, send: (leg: Leg, sender: number) => void): void {
    const go = () => {
      const leg = this.#leg as Leg;
      const { wire } = leg;
      send(leg, wire.numberOf(source));
      if (source.state === 'closed') wire.handleEnded(source);
    };
    if (!this.#isHeld) return go();
    this.#held.push(go);
    if (this.#leg === undefined && this.#next === undefined && this.#route !== undefined)
      this.#begin(this.#route);
  }

  #send(body: BodyToSend, source: RelayTarget): void {
    const { fields, parts } = bodyParts(body);
    this.#through(source, (leg, sender) => {
      const number = ++this.#lastMessage;
      this.#unwritten.push({ number, onWritten: body.onWritten });
      leg.wire.send('message', [sender, number, leg.number, ...fields], ...parts);
    });
  }

  #request(body: BodyToSend, source: RelayTarget): number {
    const { fields, parts, charge } = bodyParts(body);
    const onWritten = () => body.onWritten?.(1);
    const asked = { wire: undefined, underWay: [{ charge, onWritten }], left: 0, onLast: undefined, owed: 0 };
    return this.#open(asked, source, ({ wire, number }, sender, ref) => {
      wire.send('request', [sender, ref, number, ...fields], ...parts);
    });
  }

  #transfer(
    { totalLength, first, onFirstWritten, onWritten }: OutgoingTransfer,
    source: RelayTarget,
  ): number {
    const underWay = [{ charge: chargeOf(first.length), onWritten: () => onFirstWritten?.() }];
    const asked = { wire: undefined, underWay, left: totalLength, onLast: onWritten, owed: 0 };
    return this.#open(asked, source, ({ wire, number }, sender, ref) => {
      wire.send('tensor', [sender, ref, number, totalLength], first);
    });
  }

  #open(asked: Asked, source: RelayTarget, send: (leg: Leg, sender: number, ref: number) => void): number {
    const ref = this.#targetHost.newRef();
    this.#asked.set(ref, asked);
    this.#through(source, (leg, sender) => {
      // Its sender has left while it was held.
      if (this.#asked.get(ref) !== asked) return;
      asked.wire = leg.wire;
      leg.wire.open(ref, this, source);
      send(leg, sender, ref);
    });
    return ref;
  }

  #feed(ref: number, bytes: Uint8Array, onWritten?: () => void): void {
    const asked = this.#asked.get(ref);
    if (asked === undefined) return;
    asked.underWay.push({ charge: chargeOf(bytes.length), onWritten: () => onWritten?.() });
    this.#later(asked, () => asked.wire?.send('piece', [ref], bytes));
  }

  #cancel(ref: number): void {
    const asked = this.#asked.get(ref);
    if (asked !== undefined) this.#later(asked, () => asked.wire?.send('cancel', [ref]));
  }

  /** A reply that costs so much has come. */
  owe(ref: number, charge: number): void {
    const asked = this.#asked.get(ref);
    if (asked !== undefined) asked.owed += charge;
  }

  /** It is written. */
  #pay(ref: number, charge: number): void {
    const asked = this.#asked.get(ref) ?? this.#answered.get(ref);
    if (asked === undefined) return;
    asked.owed -= charge;
    asked.wire?.send('read', [ref, charge]);
    if (asked.owed <= 0) this.#answered.delete(ref);
  }

  /** Calls `send` after what begins the request was sent. */
  #later(asked: Asked, send: () => void): void {
    if (asked.wire === undefined) this.#held.push(send);
    else send();
  }

  // --- what its node says

  /** @param written messages that were written, of all that were not refused. @param confirmed of those. */
  handleWritten(way: number, written: number, confirmed: number): void {
    this.handleConfirmed(way, Math.min(confirmed, written));
    const base = this.#baseOf(way);
    while (base !== undefined && this.#written < base + written) {
      const next = this.#unwritten.shift();
      if (next === undefined) break;
      next.onWritten?.(++this.#written);
    }
    this.#settle();
  }

  handleConfirmed(way: number, confirmed: number): void {
    const base = this.#baseOf(way);
    if (base === undefined || confirmed === 0) return;
    this.#confirmed = Math.max(this.#confirmed, base + confirmed);
  }

  #baseOf(way: number): number | undefined {
    return [this.#leg, this.#former].find((leg) => leg?.number === way)?.base;
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
    if (asked !== undefined && asked.owed > 0) this.#answered.set(ref, asked);
    // What its sender has written of a tensor that was refused is not under way any more.
    for (const { onWritten } of asked?.underWay ?? []) onWritten();
    this.#settle();
  }

  /**
   * A connection, or one way on it, is over. Afterwards the target knows nothing of what was on it.
   *
   * @param way `undefined` for the connection.
   */
  handleLost(wire: TargetWire, way?: number): Loss {
    const isLost = (leg: Leg | undefined) => leg?.wire === wire && (way === undefined || leg.number === way);
    const confirmed = this.#confirmed;
    if (isLost(this.#leg)) {
      if (this.#next === undefined) return 'all';
      // What is held was never on it.
      const messages = this.#written - confirmed + this.#unwritten.length;
      this.#forgetCounts();
      queueMicrotask(() => this.#settle());
      return { messages, confirmed };
    }
    if (!isLost(this.#former)) return { messages: 0, confirmed: 0 };
    const messages = Math.max(0, this.#base - confirmed);
    this.#confirmed = Math.max(confirmed, this.#base);
    this.#former = undefined;
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
