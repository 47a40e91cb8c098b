import type { ProtocolError } from '../base/errors.js';
import type { Reservation } from '../base/memory.js';
import type { BodyCoder } from '../codec/auto/coder.js';
import type { SessionEvent } from '../session/types.js';
import type { Crashable } from './guard.js';
import type { BodyEvent } from './messages/intake.js';
import { createMessage } from './messages/message.js';
import type { EventRoute } from './ports.js';
import { isReply, type ReplyEvent, ReplyPassage } from './reply-passage.js';
import type { Scanner } from './scan.js';
import { TensorPassage } from './tensor-passage.js';

export interface PassageOptions {
  readonly route: EventRoute;
  readonly scanner: Scanner | undefined;
  /** Whose replies pass. */
  readonly session: Crashable;
  readonly coder: () => BodyCoder;
  readonly refuse: (streamId: number, error: ProtocolError) => void;
  /** A reply that nobody wants any more. */
  readonly drop: (event: ReplyEvent, reservation: Reservation | undefined) => void;
}

/** Server: the way of what is for others, who are kept from what a scan blocks like this end is. */
export class Passage {
  readonly #options: PassageOptions;
  readonly #tensors: TensorPassage | undefined;
  readonly #replies: ReplyPassage | undefined;

  constructor(options: PassageOptions) {
    this.#options = options;
    const { route, scanner, session, coder, refuse } = options;
    if (scanner === undefined) return;
    this.#replies = new ReplyPassage({ route, scanner, session, coder, drop: options.drop });
    this.#tensors = new TensorPassage({
      scan: (message, pass) => scanner.takeRequest(message, pass),
      pass: (held) => void route.take(held),
      refuse,
    });
  }

  /** Whether the event is for somebody else, or of interest to whoever passes such events on. */
  take(event: SessionEvent, reservation: Reservation | undefined): boolean {
    const { route, scanner, coder } = this.#options;
    if (scanner === undefined) return route.take(event, reservation);
    if (isReply(event)) return this.#takeReply(event, reservation);
    if (event.type === 'piece') return this.#tensors?.take(event) === true || route.take(event);
    if (event.type === 'cancel') this.#tensors?.forget(event.streamId);
    const isOpening = event.type === 'message' || event.type === 'request';
    if (!isOpening || event.body.agent === undefined) return route.take(event, reservation);
    const message = createMessage(event.body, coder());
    const pass = () => void route.take(event, reservation);
    if (event.type === 'message') scanner.takeMessage(message, pass);
    else scanner.takeRequest(message, pass);
    return true;
  }

  /** Bytes that the body of an event takes on its way to others; `undefined` if it is for this end. */
  memoryOf(event: BodyEvent): number | undefined {
    const { route, scanner, coder } = this.#options;
    const size = route.memoryOf(event);
    // A scan reads it, whether it is coded again or not.
    return size === undefined || scanner === undefined ? size : Math.max(size, coder().memoryOf(event.body));
  }

  /** There is no memory for what answers another session. Returns whether it does. */
  refuse(streamId: number, error: ProtocolError): boolean {
    this.#replies?.forget(streamId);
    return this.#options.route.refuse(streamId, error);
  }

  #takeReply(event: ReplyEvent, reservation: Reservation | undefined): boolean {
    const isForOthers = this.#options.route.isAsked(event.streamId);
    if (isForOthers) this.#replies?.take(event, reservation);
    // Whoever asked has left.
    else this.#replies?.forget(event.streamId);
    return isForOthers;
  }
}
