import { Extension, ProtocolError, type SessionEvent } from '@parlance/protocol';
import { type BodyEvent, type EventRoute, REPLIES, type Reservation } from '@parlance/protocol/internal';
import type { Relay } from './agents/relay.js';
import type { ServerEndpoint } from './endpoint.js';
import type { Replies } from './replies/replies.js';

/** Where events of a session go that are not for the application: to kept replies, or to other sessions. */
export class SessionRoute implements EventRoute {
  readonly #session: ServerEndpoint;
  readonly #replies: Replies;
  readonly #relay: Relay | undefined;

  /** @param relay `undefined` without agents. */
  constructor(session: ServerEndpoint, replies: Replies, relay: Relay | undefined) {
    this.#session = session;
    this.#replies = replies;
    this.#relay = relay;
  }

  isRelayed(streamId: number): boolean {
    return this.#relay?.isRelayed(this.#session, streamId) === true;
  }

  memoryOf(event: BodyEvent): number | undefined {
    if (event.body.agent === REPLIES) return undefined;
    return this.#relay?.memoryOf(this.#session, event);
  }

  refuse(streamId: number, error: ProtocolError): boolean {
    return this.#relay?.refuse(this.#session, streamId, error) === true;
  }

  handleRebuilt(confirmed: number): void {
    this.#relay?.handleRebuilt(this.#session, confirmed);
  }

  take(event: SessionEvent, reservation: Reservation | undefined): boolean {
    const session = this.#session;
    const hasReplies = session.negotiated.extensions[Extension.REPLIES] !== undefined;
    if (hasReplies && event.type === 'request' && event.body.agent === REPLIES) {
      reservation?.release();
      const { streamId, body, attempt, said } = event;
      // Another node reads on if this one dies.
      const again = { attempt, said, isRepeated: true };
      session.answer(streamId, body, this.#replies.handlerFor(session, streamId, said), again);
      return true;
    }
    if (this.#relay !== undefined) return this.#relay.take(session, event, reservation);
    return this.#refuseName(event, reservation);
  }

  /** Without agents, no other name takes anything. */
  #refuseName(event: SessionEvent, reservation: Reservation | undefined): boolean {
    const { core } = this.#session;
    switch (event.type) {
      case 'message':
        if (event.body.agent === undefined) return false;
        core.channel.consume(0, event.body.charge);
        if (event.number !== undefined) this.#session.handleDone(event.number);
        break;
      case 'request':
        if (event.body.agent === undefined) return false;
        core.channel.consume(event.streamId, event.body.charge);
        core.channel.refuse(event.streamId, unknownName(event.body.agent));
        break;
      case 'piece':
        if (event.piece.agent === undefined) return false;
        core.channel.consume(event.streamId, event.piece.charge);
        core.channel.refuse(event.streamId, unknownName(event.piece.agent));
        break;
      default:
        return false;
    }
    reservation?.release();
    this.#session.pump();
    return true;
  }
}

function unknownName(name: string): ProtocolError {
  return new ProtocolError('unknown_agent', `the server has no ${name}`);
}
