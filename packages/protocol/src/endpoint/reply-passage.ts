import type { Reservation } from '../base/memory.js';
import type { BodyCoder } from '../codec/auto/coder.js';
import { BodyCodec } from '../codec/body.js';
import type { SessionEvent } from '../session/types.js';
import { type Crashable, guard } from './guard.js';
import { createMessage, type PartText } from './messages/message.js';
import type { EventRoute } from './ports.js';
import type { Scanner } from './scan.js';

/** What answers a request. */
export type ReplyEvent = Extract<SessionEvent, { type: 'part' | 'response' | 'end' | 'failure' }>;

export function isReply(event: SessionEvent): event is ReplyEvent {
  const { type } = event;
  return type === 'part' || type === 'response' || type === 'end' || type === 'failure';
}

interface Waiting {
  /** Where a character may be split between two parts. */
  partText: PartText | undefined;
  /** Everything of the stream so far is passed on. */
  last: Promise<void>;
}

export interface ReplyPassageOptions {
  readonly route: EventRoute;
  readonly scanner: Scanner;
  readonly session: Crashable;
  readonly coder: () => BodyCoder;
  /** Nobody wants it any more. */
  readonly drop: (event: ReplyEvent, reservation: Reservation | undefined) => void;
}

/**
 * Replies that a server passes on. A scan looks at their parts in order; those that wait for it wait
 * without credit, and so does the end of a reply.
 */
export class ReplyPassage {
  readonly #options: ReplyPassageOptions;
  readonly #waiting = new Map<number, Waiting>();

  constructor(options: ReplyPassageOptions) {
    this.#options = options;
  }

  take(event: ReplyEvent, reservation: Reservation | undefined): void {
    const { route, scanner, session, coder, drop } = this.#options;
    const { streamId } = event;
    const isLast = event.type !== 'part';
    let waiting = this.#waiting.get(streamId);
    if (isLast) this.#waiting.delete(streamId);
    const pass = () => {
      if (!route.take(event, reservation)) drop(event, reservation);
    };
    if (!('body' in event) || event.body.bytes.length === 0) {
      if (waiting === undefined) pass();
      else waiting.last = waiting.last.then(() => guard(session, pass));
      return;
    }
    const { body } = event;
    waiting ??= { partText: undefined, last: Promise.resolve() };
    if (!isLast) {
      this.#waiting.set(streamId, waiting);
      if (body.codec === BodyCodec.TOKEN_NATIVE) waiting.partText ??= coder().createPartText();
    }
    const { partText, last } = waiting;
    waiting.last = scanner.takeBehind(last, () => createMessage(body, coder(), partText), pass);
  }

  forget(streamId: number): void {
    this.#waiting.delete(streamId);
  }
}
