import { type BodyPiece, ProtocolError, type ReceivedBody, type SessionEvent } from '@parlance/protocol';
import { type Reservation, TRANSFER_OVERHEAD, toProtocolError } from '@parlance/protocol/internal';
import type { ServerEndpoint } from '../endpoint.js';
import { addressed, type PartText } from './recode.js';
import type { Transit } from './transit.js';

type ReplyEvent = Extract<SessionEvent, { type: 'part' | 'response' | 'end' | 'failure' }>;

/** A request that goes through, and its way back. */
interface Passage {
  readonly source: ServerEndpoint;
  readonly sourceStream: number;
  readonly target: ServerEndpoint;
  readonly targetStream: number;
  /** The requested agent, as its requester named it. */
  readonly to: string;
  readonly kind: 'request' | 'tensor';
  /** Number of the last frame of the request, 0 until it is written. */
  frame: number;
  partText: PartText | undefined;
  /** What replies that are not written cost of the target's credit. */
  owed: number;
  /** Replies that are not written, and the memory that was reserved to code some of them again. */
  unwritten: number;
  readonly reservations: Set<Reservation>;
  readonly onUnwritten: (() => void) | undefined;
}

/** What one session has to do with. */
interface Dealings {
  /** Its requests to others, by its own stream. */
  readonly asking: Map<number, Passage>;
  /** Requests of others to it, by the stream that leads to it. */
  readonly answering: Map<number, Passage>;
  /** Answered requests of it, as long as some of the answer is not written. */
  readonly unwritten: Set<Passage>;
}

/** Requests, streams and tensors from agent to agent, and what answers them. */
export class RelayedRequests {
  readonly #transit: Transit;
  readonly #dealings = new Map<ServerEndpoint, Dealings>();

  constructor(transit: Transit) {
    this.#transit = transit;
  }

  /** Whether a stream of `session` leads to another session, in either direction. */
  isRelayed(session: ServerEndpoint, streamId: number): boolean {
    const dealings = this.#dealings.get(session);
    return dealings !== undefined && (dealings.asking.has(streamId) || dealings.answering.has(streamId));
  }

  /** The session that has asked `session` on this stream. */
  askerOf(session: ServerEndpoint, streamId: number): ServerEndpoint | undefined {
    return this.#dealings.get(session)?.answering.get(streamId)?.source;
  }

  /** @param reservation of the memory that the body takes if it has to be coded again. */
  take(
    source: ServerEndpoint,
    sourceStream: number,
    to: string,
    body: ReceivedBody,
    reservation: Reservation | undefined,
  ): void {
    // It may have been cancelled while it was looked at.
    if (!source.core.channel.isWanted(sourceStream)) {
      reservation?.release();
      return source.tell((core) => core.channel.end(sourceStream));
    }
    const transit = this.#transit;
    try {
      const { session: target } = transit.admit(source, to, 'request', body);
      const opening = this.#open({ source, sourceStream, target, to, kind: 'request' });
      const onWritten = (count: number) => {
        opening.onWritten(count);
        onDropped();
        transit.giveBack(source, sourceStream, body.charge);
      };
      const onDropped = () => reservation?.release();
      const coded = addressed(
        transit.convert(body, source, target),
        transit.nameOf(source, target),
        onWritten,
        onDropped,
      );
      target.perform((core) => opening.begin(core.channel.request(coded), onDropped));
    } catch (error) {
      reservation?.release();
      this.#refuse(source, sourceStream, to, error);
    }
  }

  /**
   * Tensors pass piece by piece: each is credited to its sender when it is written to its receiver. Returns
   * whether it is one for somebody else.
   */
  takePiece(source: ServerEndpoint, sourceStream: number, piece: BodyPiece): boolean {
    const { agent: to, bytes, charge } = piece;
    if (to !== undefined) {
      this.#takeTensor(source, sourceStream, to, piece);
      return true;
    }
    const passage = this.#dealings.get(source)?.asking.get(sourceStream);
    if (passage === undefined) return false;
    const { target, targetStream } = passage;
    const onWritten = () => this.#transit.giveBack(source, sourceStream, charge);
    target.tell((core) => core.channel.feed(targetStream, bytes, onWritten));
    return true;
  }

  /** Returns whether it answers somebody else. */
  takeReply(target: ServerEndpoint, event: ReplyEvent, reservation: Reservation | undefined): boolean {
    const passage = this.#dealings.get(target)?.answering.get(event.streamId);
    if (passage === undefined) return false;
    const { source, sourceStream } = passage;
    if (event.type === 'part' || event.type === 'response') this.#passBack(passage, event, reservation);
    if (event.type !== 'part') this.#forget(passage);
    if (event.type === 'end') this.#endReply(passage);
    if (event.type === 'failure') {
      source.tell((core) => {
        // What a receiver finds wrong with a tensor is told to whoever sent it.
        if (passage.kind === 'tensor') core.channel.refuse(sourceStream, event.error as ProtocolError);
        else core.channel.fail(sourceStream, event.error);
      });
    }
    return true;
  }

  /** A reply cannot go on. Returns whether it answers another session. */
  fail(target: ServerEndpoint, targetStream: number, error: ProtocolError): boolean {
    const passage = this.#dealings.get(target)?.answering.get(targetStream);
    if (passage === undefined) return false;
    const { source, sourceStream } = passage;
    this.#forget(passage);
    target.tell((core) => core.channel.cancel(targetStream));
    source.tell((core) => core.channel.fail(sourceStream, error));
    return true;
  }

  /** Returns whether it was somebody else who was asked. */
  cancel(source: ServerEndpoint, sourceStream: number): boolean {
    const passage = this.#dealings.get(source)?.asking.get(sourceStream);
    // Answered when the target has answered: until then the stream keeps its slot.
    passage?.target.tell((core) => core.channel.cancel(passage.targetStream));
    return passage !== undefined;
  }

  handleEnded(session: ServerEndpoint): void {
    const dealings = this.#dealings.get(session);
    if (dealings === undefined) return;
    this.#dealings.delete(session);
    for (const { target, targetStream } of dealings.asking.values()) {
      this.#dealings.get(target)?.answering.delete(targetStream);
      target.tell((core) => core.channel.cancel(targetStream));
    }
    for (const { source, sourceStream, to, frame, onUnwritten } of dealings.answering.values()) {
      onUnwritten?.();
      this.#dealings.get(source)?.asking.delete(sourceStream);
      const knows = frame > 0 ? 'it may have begun to work on the request' : 'it never had the request';
      const error = new ProtocolError('peer_gone', `the session of agent ${to} is over; ${knows}`);
      source.tell((core) => core.channel.fail(sourceStream, error));
    }
    for (const passage of [...dealings.asking.values(), ...dealings.unwritten])
      this.#settle(passage, passage.owed, passage.unwritten);
  }

  /** A passage that begins when the target's core has opened a stream for it. */
  #open(known: Pick<Passage, 'source' | 'sourceStream' | 'target' | 'to' | 'kind'>): {
    /** @param onUnwritten the target's session ends before it has all of the request. */
    readonly begin: (targetStream: number, onUnwritten?: () => void) => void;
    readonly onWritten: (frame: number) => void;
  } {
    let passage: Passage | undefined;
    let frame = 0;
    return {
      begin: (targetStream, onUnwritten) => {
        passage = {
          ...known,
          targetStream,
          frame,
          partText: undefined,
          owed: 0,
          unwritten: 0,
          reservations: new Set(),
          onUnwritten,
        };
        this.#of(known.source).asking.set(known.sourceStream, passage);
        this.#of(known.target).answering.set(targetStream, passage);
      },
      onWritten(count) {
        frame = count;
        if (passage !== undefined) passage.frame = count;
      },
    };
  }

  /** The first piece of a tensor. */
  #takeTensor(source: ServerEndpoint, sourceStream: number, to: string, piece: BodyPiece): void {
    const { bytes: first, totalLength, charge } = piece;
    // It may have been cancelled while it was looked at.
    if (!source.core.channel.isWanted(sourceStream)) return;
    const transit = this.#transit;
    try {
      const { session: target } = transit.admit(source, to, 'tensor', undefined);
      const opening = this.#open({ source, sourceStream, target, to, kind: 'tensor' });
      const transfer = {
        // How much of it is not the tensor is for its receiver to find out.
        payloadSize: Math.max(0, totalLength - TRANSFER_OVERHEAD),
        totalLength,
        first,
        onFirstWritten: () => transit.giveBack(source, sourceStream, charge),
        agent: transit.nameOf(source, target),
        onWritten: opening.onWritten,
      };
      target.perform((core) => opening.begin(core.channel.transfer(transfer)));
      transit.stats.forwarded++;
    } catch (error) {
      this.#refuse(source, sourceStream, to, error);
    }
  }

  #passBack(
    passage: Passage,
    event: Extract<ReplyEvent, { type: 'part' | 'response' }>,
    reservation: Reservation | undefined,
  ): void {
    const { source, sourceStream, target, targetStream } = passage;
    const { type, body } = event;
    passage.owed += body.charge;
    passage.unwritten++;
    target.relayed++;
    if (reservation !== undefined) passage.reservations.add(reservation);
    let isTaken = false;
    const onTaken = () => {
      if (isTaken) return;
      isTaken = true;
      reservation?.release();
      if (reservation !== undefined) passage.reservations.delete(reservation);
      this.#settle(passage, body.charge, 1);
    };
    // Who has cancelled takes no more, and what nobody takes is as good as taken.
    const isWanted = source.core.channel.isWanted(sourceStream);
    if (!isWanted) onTaken();
    if (!isWanted && type === 'part') return;
    try {
      const converted = this.#transit.convert(body, target, source, type === 'part' ? passage : undefined);
      const coded = addressed(converted, undefined, onTaken, onTaken);
      source.perform((core) => {
        if (type === 'part') core.channel.chunk(sourceStream, coded);
        else core.channel.respond(sourceStream, coded);
      });
    } catch (error) {
      onTaken();
      this.#forget(passage);
      const reason = this.#transit.reasonOf(error, passage.to);
      target.tell((core) => core.channel.cancel(targetStream));
      source.tell((core) => core.channel.refuse(sourceStream, reason));
    }
  }

  /** Tokens that were passed on as text may end inside a character, which the reader is told like any other. */
  #endReply({ source, sourceStream, partText }: Passage): void {
    source.tell((core) => {
      try {
        partText?.end();
        core.channel.end(sourceStream);
      } catch (error) {
        core.channel.refuse(
          sourceStream,
          toProtocolError(error, 'internal', 'the reply could not be passed on'),
        );
      }
    });
  }

  #refuse(source: ServerEndpoint, sourceStream: number, to: string, error: unknown): void {
    const reason = this.#transit.refuse(error, to);
    source.tell((core) => core.channel.refuse(sourceStream, reason));
  }

  /** Somebody has taken what the target was charged, or nobody will. */
  #settle(passage: Passage, charge: number, replies: number): void {
    const { source, target, targetStream } = passage;
    // Everything was settled when the source's session ended.
    if (passage.owed === 0) return;
    passage.owed -= charge;
    passage.unwritten -= replies;
    target.relayed -= replies;
    if (passage.owed === 0) {
      for (const reservation of passage.reservations) reservation.release();
      passage.reservations.clear();
      this.#dealings.get(source)?.unwritten.delete(passage);
    }
    this.#transit.giveBack(target, targetStream, charge);
  }

  #forget(passage: Passage): void {
    const { source, sourceStream, target, targetStream } = passage;
    const dealings = this.#dealings.get(source);
    dealings?.asking.delete(sourceStream);
    if (passage.owed > 0) dealings?.unwritten.add(passage);
    this.#dealings.get(target)?.answering.delete(targetStream);
  }

  #of(session: ServerEndpoint): Dealings {
    let dealings = this.#dealings.get(session);
    if (dealings === undefined) {
      dealings = { asking: new Map(), answering: new Map(), unwritten: new Set() };
      this.#dealings.set(session, dealings);
    }
    return dealings;
  }
}
