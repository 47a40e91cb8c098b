import type { ProtocolError, SessionEvent } from '@parlance/protocol';
import type { BodyEvent, EventRoute, Reservation } from '@parlance/protocol/internal';
import type { ServerEndpoint } from '../session/endpoint.js';
import type { Relay } from './relay.js';

/** Gives the relay what one session sends to others. */
export class RelayRoute implements EventRoute {
  readonly #session: ServerEndpoint;
  readonly #relay: Relay;

  constructor(session: ServerEndpoint, relay: Relay) {
    this.#session = session;
    this.#relay = relay;
  }

  isRelayed(streamId: number): boolean {
    return this.#relay.isRelayed(this.#session, streamId);
  }

  memoryOf(event: BodyEvent): number | undefined {
    return this.#relay.memoryOf(this.#session, event);
  }

  refuse(streamId: number, error: ProtocolError): boolean {
    return this.#relay.refuse(this.#session, streamId, error);
  }

  handleRebuilt(confirmed: number): void {
    this.#relay.handleRebuilt(this.#session, confirmed);
  }

  take(event: SessionEvent, reservation: Reservation | undefined): boolean {
    return this.#relay.take(this.#session, event, reservation);
  }
}
