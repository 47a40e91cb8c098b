import type { BodyToSend } from '@parlance/protocol';
import type { RelayChannel, RelayedPlace, RelayTarget } from '../target.js';
import { AskedRequests } from './asked-requests.js';
import { bodyParts } from './messages.js';
import {
  type RemoteAgent,
  type RemoteHost,
  RemoteSession,
  type RemoteWire,
  UNUSED,
} from './remote-session.js';
import { type Sent, SentMessages } from './sent-messages.js';

export interface TargetHost extends RemoteHost {
  /** A number for a request or a way, which no other one of this node has. */
  newRef(): number;
  /** So many of the oldest messages that are not written may have arrived, and are sent again. */
  onDoubt(target: RemoteTarget, count: number): void;
  /** A message is not sent, as another node has its sender by now. @param place among those that are not written. */
  onStale(target: RemoteTarget, place: number): void;
}

/** The way to the node of a session. */
export interface Route {
  /** The connection to the node, which may be opened by this. */
  connect(): TargetWire;
  /** Whether the node may answer. */
  readonly isAlive: boolean;
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

/** A way on which messages went, whose counts begin at `base`. */
interface Leg {
  readonly wire: TargetWire;
  readonly number: number;
  readonly base: number;
  /** Its node takes what is new. */
  isReady: boolean;
}

/** The effect of the end of a connection on a target that has used it. */
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
 * When its session moves, it takes another route. New messages wait until all that went the old way are written, so
 * that they overtake none.
 */
export class RemoteTarget extends RemoteSession {
  readonly #targetHost: TargetHost;
  readonly #asked: AskedRequests;
  #route: Route | undefined;
  /** Taken as soon as nothing is under way on the present route. */
  #next: Route | undefined;
  #held: (() => void)[] = [];
  readonly #sent = new SentMessages();
  #written = 0;
  #confirmed = 0;
  /** The number from which the next connection counts. */
  #base = 0;
  #leg: Leg | undefined;
  #former: Leg | undefined;
  #source: RelayTarget | undefined;
  /** The node could not be reached, and is tried again with the next tick. */
  #isResting = false;
  /** The agent is not known any more, so that what is lost is not sent again. */
  isDropped = false;
  /** Called when a new route is taken, or nothing is under way on it any more. */
  onSettled: (() => void) | undefined;

  /** @param route `undefined` holds what is for it until {@link reroute}. */
  constructor(agent: RemoteAgent, host: TargetHost, route: Route | undefined) {
    super(agent, host);
    this.#targetHost = host;
    this.#asked = new AskedRequests({
      newRef: () => host.newRef(),
      begin: (ref, asker, isWanted, send) =>
        this.#through(asker, ({ wire, number }, sender) => {
          // Its sender has left while it was held.
          if (!isWanted()) return;
          wire.open(ref, this, asker);
          send(wire, number, sender);
        }),
      hold: (send) => void this.#held.push(send),
    });
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
      relay: (body, place) => this.#send(body, place, this.#source as RelayTarget),
      request: (body) => this.#asked.request(body, this.#source as RelayTarget),
      transfer: (transfer) => this.#asked.transfer(transfer, this.#source as RelayTarget),
      feed: (ref, bytes, onWritten) => this.#asked.feed(ref, bytes, onWritten),
      cancel: (ref) => this.#asked.cancel(ref),
      consume: (ref, charge) => {
        this.#asked.pay(ref, charge);
        return false;
      },
    };
  }

  // --- the route

  get #isHeld(): boolean {
    return this.#next !== undefined || this.#leg?.isReady !== true;
  }

  /** Requests that wait for a connection. */
  get waitingRequests(): readonly number[] {
    return this.#asked.waiting;
  }

  /** Something may be under way on a connection. */
  get hasLeg(): boolean {
    return this.#leg !== undefined;
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
    return this.#sent.size === 0 && this.#asked.isWritten;
  }

  /** The session is elsewhere. */
  reroute(route: Route): void {
    this.#next = route;
    // Its former node records nothing any more, so new messages need not wait for that node.
    if (this.retentionMs > 0 && this.#leg !== undefined) {
      this.#leg.wire.leave(this.#leg.number);
      this.#sendAgain(true);
    }
    this.#settle();
  }

  /** The session is not at its node for now. */
  handleAgain(number: number): void {
    if (this.#leg?.number !== number) return;
    this.#sendAgain(true);
    this.#settle();
    this.#beginIfNeeded();
  }

  /** Nothing is known of what is under way: it is sent again, in front of what waits. */
  #sendAgain(isDoubtful: boolean): void {
    const again = this.#sent.takeAll(isDoubtful);
    this.#leg = undefined;
    this.#base = this.#written;
    if (isDoubtful) this.#targetHost.onDoubt(this, again.length);
    this.#held.unshift(...again.map((sent) => () => this.#through(sent.source, this.#write(sent))));
  }

  override handleTick(): void {
    super.handleTick();
    if (this.#route?.isAlive === false) return;
    this.#isResting = false;
    this.#beginIfNeeded();
  }

  #beginIfNeeded(): void {
    const isSettled = this.#leg === undefined && this.#next === undefined;
    if (isSettled && this.#held.length > 0 && !this.#isResting && this.#route !== undefined)
      this.#begin(this.#route);
  }

  /**
   * Sends the held messages to the node that the session has moved to.
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

  /** Messages that wait may go. */
  handleReady(number: number): void {
    if (this.#leg?.number !== number) return;
    this.#leg.isReady = true;
    if (this.#next === undefined) for (const send of this.#held.splice(0)) send();
    this.#settle();
  }

  /** New messages wait: the session may be about to move. */
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
      this.#isResting = false;
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
    this.#beginIfNeeded();
  }

  #send(body: BodyToSend, { number, isAgain, onTaken }: RelayedPlace, source: RelayTarget): void {
    const sent: Sent = { own: 0, number, isAgain, onTaken, source, body };
    this.#through(source, this.#write(sent));
  }

  #write(sent: Sent): (leg: Leg, sender: number) => void {
    return (leg, sender) => {
      const { number, isAgain, body, source } = sent;
      if (source.isElsewhere === true) return this.#targetHost.onStale(this, this.#sent.size);
      const { fields, parts } = bodyParts(body);
      this.#sent.add(sent);
      const place = [sender, sent.own, leg.number, number, isAgain ? 1 : 0];
      leg.wire.send('message', [...place, ...fields], ...parts);
    };
  }

  /** A reply that costs so much has come. */
  owe(ref: number, charge: number): void {
    this.#asked.owe(ref, charge);
  }

  // --- what its node says

  /** The session has a message. */
  handleTaken(own: number): void {
    this.#sent.handleTaken(own);
  }

  /**
   * A message is written.
   *
   * @param written messages that were written, of all that were not refused.
   * @param confirmed of those.
   */
  handleWritten(way: number, own: number, written: number, confirmed: number): void {
    this.handleConfirmed(way, Math.min(confirmed, written));
    if (this.#baseOf(way) !== undefined) this.#sent.handleWritten(own)?.body.onWritten?.(++this.#written);
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
    const place = this.#sent.handleRefused(number);
    queueMicrotask(() => this.#settle());
    return place;
  }

  /** The other node has written what cost so much. */
  handleCredit(ref: number, charge: number): void {
    this.#asked.handleCredit(ref, charge);
    this.#settle();
  }

  /** The request is over. */
  forget(ref: number): void {
    this.#asked.forget(ref);
    this.#settle();
  }

  /**
   * A connection, or one way on it, is over. Afterwards the target knows nothing of what was on it.
   *
   * @param way `undefined` for the connection; else the session is over there.
   * @param isCertain whether nothing was sent on the connection.
   */
  handleLost(wire: TargetWire, way: number | undefined, isCertain: boolean): Loss {
    const isLost = (leg: Leg | undefined) => leg?.wire === wire && (way === undefined || leg.number === way);
    const confirmed = this.#confirmed;
    if (isLost(this.#leg)) {
      if (this.#next === undefined && (way !== undefined || this.isDropped)) return 'all';
      // A node that was reached is there again in a moment, or not any more.
      this.#isResting = isCertain || this.#route?.isAlive !== true;
      this.#sendAgain(way !== undefined || !isCertain);
      queueMicrotask(() => {
        this.#settle();
        this.#beginIfNeeded();
      });
      // Written messages are confirmed with the next ones, or are lost with the session.
      return { messages: 0, confirmed };
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
    for (const ref of this.#asked.refs) this.forget(ref);
    this.#forgetCounts();
    this.#settle();
  }

  #forgetCounts(): void {
    this.#sent.takeAll(false);
    this.#written = 0;
    this.#confirmed = 0;
    this.#base = 0;
    this.#leg = undefined;
    this.#former = undefined;
  }
}
