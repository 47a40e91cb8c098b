import type { SessionEvent } from '@parlance/protocol';
import { type Reservation, toProtocolError } from '@parlance/protocol/internal';
import { addressed } from './addressed.js';
import type { RelayedRequest, RequestTable } from './relayed-request.js';
import type { Transit } from './transit.js';

export type ReplyEvent = Extract<SessionEvent, { type: 'part' | 'response' | 'end' | 'failure' }>;

/** Replies to relayed requests, on their way back to the requesters. */
export class RelayedReplies {
  readonly #transit: Transit;
  readonly #table: RequestTable;

  constructor(transit: Transit, table: RequestTable) {
    this.#transit = transit;
    this.#table = table;
  }

  pass(
    request: RelayedRequest,
    event: Extract<ReplyEvent, { type: 'part' | 'response' }>,
    reservation: Reservation | undefined,
  ): void {
    const { source, sourceStream, target, targetStream } = request;
    const { type, body } = event;
    const release = this.#hold(request, body.charge, reservation);
    // After a cancel, the requester does not read replies.
    const isWanted = source.core.channel.isWanted(sourceStream);
    if (!isWanted) release();
    if (!isWanted && type === 'part') return;
    try {
      const converted = this.#transit.convert(body, target, source, type === 'part' ? request : undefined);
      const coded = addressed(converted, undefined, release, release);
      source.perform((core) => {
        if (type === 'part') core.channel.chunk(sourceStream, coded);
        else core.channel.respond(sourceStream, coded);
      });
    } catch (error) {
      release();
      this.#table.handleAnswered(request);
      const reason = this.#transit.reasonOf(error, request.to);
      target.tell((core) => core.channel.cancel(targetStream));
      source.tell((core) => core.channel.refuse(sourceStream, reason));
    }
  }

  /** Holds the target's credit and the memory of a reply; returns how to release them, which works once. */
  #hold(request: RelayedRequest, charge: number, reservation: Reservation | undefined): () => void {
    request.unreleased += charge;
    request.unwritten++;
    request.target.relayed++;
    if (reservation !== undefined) request.reservations.add(reservation);
    let isReleased = false;
    return () => {
      if (isReleased) return;
      isReleased = true;
      if (reservation !== undefined) {
        reservation.release();
        request.reservations.delete(reservation);
      }
      this.release(request, 1, charge);
    };
  }

  /** These replies are written, or never will be. */
  release(request: RelayedRequest, replies: number, charge: number): void {
    const { target, targetStream } = request;
    // The end of the source's session has released all replies.
    if (request.unwritten === 0) return;
    request.unreleased -= charge;
    request.unwritten -= replies;
    target.relayed -= replies;
    if (request.unwritten === 0) {
      for (const reservation of request.reservations) reservation.release();
      request.reservations.clear();
      this.#table.handleWritten(request);
    }
    this.#transit.returnCredit(target, targetStream, charge);
  }

  /** Tokens that were relayed as text may end inside a character, which is an error for the reader. */
  end({ source, sourceStream, partText }: RelayedRequest): void {
    source.tell((core) => {
      try {
        partText?.end();
        core.channel.end(sourceStream);
      } catch (error) {
        const reason = toProtocolError(error, 'internal', 'the reply could not be relayed');
        core.channel.refuse(sourceStream, reason);
      }
    });
  }
}
