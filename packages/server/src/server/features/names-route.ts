import { ProtocolError, type SessionEvent } from '@parlance/protocol';
import type { BodyEvent, EventRoute, Reservation } from '@parlance/protocol/internal';
import type { ServerEndpoint } from '../../session/endpoint.js';
import type { OwnName } from './own-feature.js';

type OwnNames = Readonly<Record<string, OwnName>>;

/** Answers what is for the server's own names, and refuses what is for a name that nothing has. */
export class NamesRoute implements EventRoute {
  readonly #session: ServerEndpoint;
  readonly #names: OwnNames;
  readonly #next: EventRoute | undefined;

  private constructor(session: ServerEndpoint, names: OwnNames, next: EventRoute | undefined) {
    this.#session = session;
    this.#names = names;
    this.#next = next;
  }

  /** @param next takes events that are for other sessions. */
  static around(
    session: ServerEndpoint,
    names: OwnNames,
    next: EventRoute | undefined,
  ): EventRoute | undefined {
    const { extensions } = session.negotiated;
    const isNamed = Object.values(names).some(({ extension }) => extensions[extension] !== undefined);
    return isNamed ? new NamesRoute(session, names, next) : next;
  }

  isRelayed(streamId: number): boolean {
    return this.#next?.isRelayed(streamId) === true;
  }

  memoryOf(event: BodyEvent): number | undefined {
    if (this.#nameOf(event.body.address) !== undefined) return undefined;
    return this.#next?.memoryOf(event);
  }

  refuse(streamId: number, error: ProtocolError): boolean {
    return this.#next?.refuse(streamId, error) === true;
  }

  handleRebuilt(confirmed: number): void {
    this.#next?.handleRebuilt(confirmed);
  }

  take(event: SessionEvent, reservation: Reservation | undefined): boolean {
    const session = this.#session;
    const name = event.type === 'request' ? this.#nameOf(event.body.address) : undefined;
    if (name !== undefined && event.type === 'request') {
      reservation?.release();
      const { streamId, body, attempt, yielded } = event;
      // Another node reads on if this one dies.
      const again = { attempt, yielded, isRepeated: true };
      session.answer(streamId, body, name.handlerFor(session, streamId, yielded), again);
      return true;
    }
    return this.#next === undefined ? this.#refuse(event, reservation) : this.#next.take(event, reservation);
  }

  #nameOf(name: string | undefined): OwnName | undefined {
    const own = name !== undefined && Object.hasOwn(this.#names, name) ? this.#names[name] : undefined;
    if (own === undefined) return undefined;
    return this.#session.negotiated.extensions[own.extension] === undefined ? undefined : own;
  }

  /** Without another route, no other name takes anything. */
  #refuse(event: SessionEvent, reservation: Reservation | undefined): boolean {
    const { core } = this.#session;
    switch (event.type) {
      case 'message':
        if (event.body.address === undefined) return false;
        core.channel.consume(0, event.body.charge);
        if (event.number !== undefined) this.#session.handleDone(event.number);
        break;
      case 'request':
        if (event.body.address === undefined) return false;
        core.channel.consume(event.streamId, event.body.charge);
        core.channel.refuse(event.streamId, unknownName(event.body.address));
        break;
      case 'piece':
        if (event.piece.address === undefined) return false;
        core.channel.consume(event.streamId, event.piece.charge);
        core.channel.refuse(event.streamId, unknownName(event.piece.address));
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
