import type { Logger, ProtocolError, SessionEvent } from '@parlance/protocol';
import { type BodyEvent, DIRECTORY, type Reservation } from '@parlance/protocol/internal';
import type { ServerEndpoint } from '../session/endpoint.js';
import type { Directory } from './directory.js';
import { RelayedMessages } from './messages.js';
import type { Policy } from './policy.js';
import type { MessageSequence } from './received-marks.js';
import { RelayedRequests } from './requests.js';
import type { RelayTarget } from './target.js';
import { type RelayStats, Transit } from './transit.js';

/**
 * Carries messages and requests from agent to agent. Bodies are forwarded unchanged if possible. A sender gets its
 * credit back only when a body is written to the receiver's connection, so a receiver that stalls stops its senders
 * and no other session, and what waits here is bounded by their windows.
 */
export class Relay {
  readonly #directory: Directory;
  readonly #moved = new WeakSet<RelayTarget>();
  readonly transit: Transit;
  readonly messages: RelayedMessages;
  readonly requests: RelayedRequests;

  /** A session of this node is over. */
  onEnded: ((session: RelayTarget) => void) | undefined;

  constructor(directory: Directory, policy: Policy, logger: Logger) {
    this.#directory = directory;
    this.transit = new Transit(directory, policy, logger);
    this.messages = new RelayedMessages(this.transit);
    this.requests = new RelayedRequests(this.transit);
  }

  get stats(): RelayStats {
    return this.transit.stats;
  }

  /** Takes the events of `session` that are for other sessions: messages, requests and replies. */
  take(session: ServerEndpoint, event: SessionEvent, reservation: Reservation | undefined): boolean {
    switch (event.type) {
      case 'message':
        if (event.body.address === undefined) return false;
        this.messages.take(session, event.body.address, event.body, reservation, placeOf(event));
        return true;
      case 'request': {
        const { streamId, body } = event;
        if (body.address === undefined) return false;
        if (body.address !== DIRECTORY)
          this.requests.take(session, streamId, body.address, body, reservation);
        else
          session.answer(streamId, body, this.#directory.handlerFor(session, streamId), {
            ...event,
            isRepeated: true,
          });
        return true;
      }
      case 'piece':
        return this.requests.takePiece(session, event.streamId, event.piece);
      case 'part':
      case 'response':
      case 'end':
      case 'failure':
        return this.requests.takeReply(session, event, reservation);
      case 'cancel':
        return this.requests.cancel(session, event.streamId);
      default:
        return false;
    }
  }

  /** Bytes of memory that a body of `session` takes on its way to another; `undefined` if it is for the server itself. */
  memoryOf(session: ServerEndpoint, event: BodyEvent): number | undefined {
    const { body } = event;
    if (event.type === 'part' || event.type === 'response') {
      const asker = this.requests.askerOf(session, event.streamId);
      return asker && this.transit.memoryOf(body, session, asker);
    }
    if (body.address === undefined || body.address === DIRECTORY) return undefined;
    const target = this.transit.targetOf(session, body.address, event.type, body);
    return target === undefined ? 0 : this.transit.memoryOf(body, session, target);
  }

  /** There is no memory for a reply of `session`. Returns whether it answers another session. */
  refuse(session: ServerEndpoint, streamId: number, error: ProtocolError): boolean {
    return this.requests.fail(session, streamId, error);
  }

  /** Whether a stream of `session` leads to another session, in either direction. */
  isRelayed(session: ServerEndpoint, streamId: number): boolean {
    return this.requests.isRelayed(session, streamId);
  }

  /** The page of `session` was loaded again. The streams of its former link end by their events. */
  handleRebuilt(session: ServerEndpoint, confirmed: number): void {
    this.messages.handleRebuilt(session, confirmed);
  }

  /** The session ends here, and continues at another node. */
  handleMoved(session: RelayTarget): void {
    this.requests.handleEnded(session);
    this.#moved.add(session);
  }

  /**
   * Releases all credit and memory that the ended session and its peers hold for each other.
   *
   * @param isCertain whether what is not known to be written was not. @default true
   */
  handleEnded(session: RelayTarget, isCertain = true): void {
    if (this.#moved.has(session)) return;
    this.requests.handleEnded(session);
    const standIn = this.#directory.standInOf(session);
    if (standIn !== undefined) return this.messages.handleAway(session, standIn);
    this.messages.handleEnded(session, isCertain);
    if (!session.isRemote) this.onEnded?.(session);
  }
}

/** The place of a message of a recorded session. The message has the same number at all nodes. */
function placeOf({
  number,
  redelivered = false,
}: SessionEvent & { type: 'message' }): MessageSequence | undefined {
  return number === undefined ? undefined : { number, isAgain: redelivered };
}
