import {
  type BodyPiece,
  type Endpoint,
  ProtocolError,
  type ReceivedBody,
  type SessionEvent,
  TRANSFER_OVERHEAD,
  toProtocolError,
} from '@parlance/protocol';
import { addressed, type PartText } from './recode.js';
import type { Transit } from './transit.js';

type ReplyEvent = Extract<SessionEvent, { type: 'part' | 'response' | 'end' | 'failure' }>;

/** A request that goes through, and its way back. */
interface Passage {
  readonly source: Endpoint;
  readonly sourceStream: number;
  readonly target: Endpoint;
  readonly targetStream: number;
  /** The requested agent, as its requester named it. */
  readonly to: string;
  readonly kind: 'request' | 'tensor';
  /** Number of the last frame of the request, 0 until it is written. */
  frame: number;
  partText: PartText | undefined;
  /** What replies that are not written cost of the target's credit. */
  owed: number;
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
  readonly #dealings = new Map<Endpoint, Dealings>();

  constructor(transit: Transit) {
    this.#transit = transit;
  }

  /** Whether another session has asked `session` on this stream. */
  isAsked(session: Endpoint, streamId: number): boolean {
    return this.#dealings.get(session)?.answering.has(streamId) ?? false;
  }

  take(source: Endpoint, sourceStream: number, to: string, body: ReceivedBody): void {
    // It may have been cancelled while it was looked at.
    if (!source.core.isWanted(sourceStream))
      return source.perform(undefined, (core) => core.end(sourceStream));
    const transit = this.#transit;
    try {
      const { session: target } = transit.admit(source, to, 'request', body);
      const opening = this.#open({ source, sourceStream, target, to, kind: 'request' });
      const onWritten = (count: number) => {
        opening.onWritten(count);
        transit.giveBack(source, sourceStream, body.charge);
      };
      const coded = addressed(transit.convert(body, source, target), source.agentId, onWritten);
      target.perform(coded, (core) => opening.begin(core.request(coded)));
    } catch (error) {
      this.#refuse(source, sourceStream, to, error);
    }
  }

  /**
   * Tensors pass piece by piece: each is credited to its sender when it is written to its receiver. Returns
   * whether it is one for somebody else.
   */
  takePiece(source: Endpoint, sourceStream: number, piece: BodyPiece): boolean {
    const { agent: to, bytes, charge } = piece;
    if (to !== undefined) {
      this.#takeTensor(source, sourceStream, to, piece);
      return true;
    }
    const passage = this.#dealings.get(source)?.asking.get(sourceStream);
    if (passage === undefined) return false;
    const { target, targetStream } = passage;
    const onWritten = () => this.#transit.giveBack(source, sourceStream, charge);
    target.perform(undefined, (core) => core.feed(targetStream, bytes, onWritten));
    return true;
  }

  /** Returns whether it answers somebody else. */
  takeReply(target: Endpoint, event: ReplyEvent): boolean {
    const passage = this.#dealings.get(target)?.answering.get(event.streamId);
    if (passage === undefined) return false;
    const { source, sourceStream } = passage;
    if (event.type === 'part' || event.type === 'response') this.#passBack(passage, event);
    if (event.type !== 'part') this.#forget(passage);
    if (event.type === 'end') this.#endReply(passage);
    if (event.type === 'failure') {
      source.perform(undefined, (core) => {
        // What a receiver finds wrong with a tensor is told to whoever sent it.
        if (passage.kind === 'tensor') core.refuse(sourceStream, event.error as ProtocolError);
        else core.fail(sourceStream, event.error);
      });
    }
    return true;
  }

  /** Returns whether it was somebody else who was asked. */
  cancel(source: Endpoint, sourceStream: number): boolean {
    const passage = this.#dealings.get(source)?.asking.get(sourceStream);
    // Answered when the target has answered: until then the stream keeps its slot.
    passage?.target.perform(undefined, (core) => core.cancel(passage.targetStream));
    return passage !== undefined;
  }

  handleEnded(session: Endpoint): void {
    const dealings = this.#dealings.get(session);
    if (dealings === undefined) return;
    this.#dealings.delete(session);
    for (const { target, targetStream } of dealings.asking.values()) {
      this.#dealings.get(target)?.answering.delete(targetStream);
      target.perform(undefined, (core) => core.cancel(targetStream));
    }
    for (const { source, sourceStream, to, frame } of dealings.answering.values()) {
      this.#dealings.get(source)?.asking.delete(sourceStream);
      const knows = frame > 0 ? 'it may have begun to work on the request' : 'it never had the request';
      const error = new ProtocolError('peer_gone', `the session of agent ${to} is over; ${knows}`);
      source.perform(undefined, (core) => core.fail(sourceStream, error));
    }
    for (const passage of [...dealings.asking.values(), ...dealings.unwritten])
      this.#settle(passage, passage.owed);
  }

  /** A passage that begins when the target's core has opened a stream for it. */
  #open(known: Pick<Passage, 'source' | 'sourceStream' | 'target' | 'to' | 'kind'>): {
    readonly begin: (targetStream: number) => void;
    readonly onWritten: (frame: number) => void;
  } {
    let passage: Passage | undefined;
    let frame = 0;
    return {
      begin: (targetStream) => {
        passage = { ...known, targetStream, frame, partText: undefined, owed: 0 };
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
  #takeTensor(source: Endpoint, sourceStream: number, to: string, piece: BodyPiece): void {
    const { bytes: first, totalLength, charge } = piece;
    // It may have been cancelled while it was looked at.
    if (!source.core.isWanted(sourceStream)) return;
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
        agent: source.agentId,
        onWritten: opening.onWritten,
      };
      target.perform(totalLength, (core) => opening.begin(core.transfer(transfer)));
      transit.stats.forwarded++;
    } catch (error) {
      this.#refuse(source, sourceStream, to, error);
    }
  }

  #passBack(passage: Passage, event: Extract<ReplyEvent, { type: 'part' | 'response' }>): void {
    const { source, sourceStream, target, targetStream } = passage;
    const { type, body } = event;
    passage.owed += body.charge;
    const onTaken = () => this.#settle(passage, body.charge);
    // Who has cancelled takes no more, and what nobody takes is as good as taken.
    const isWanted = source.core.isWanted(sourceStream);
    if (!isWanted) onTaken();
    if (!isWanted && type === 'part') return;
    try {
      const converted = this.#transit.convert(body, target, source, type === 'part' ? passage : undefined);
      const coded = addressed(converted, undefined, onTaken, onTaken);
      source.perform(coded, (core) => {
        if (type === 'part') core.chunk(sourceStream, coded);
        else core.respond(sourceStream, coded);
      });
    } catch (error) {
      onTaken();
      this.#forget(passage);
      const reason = this.#transit.reasonOf(error, passage.to);
      target.perform(undefined, (core) => core.cancel(targetStream));
      source.perform(undefined, (core) => core.refuse(sourceStream, reason));
    }
  }

  /** Tokens that were passed on as text may end inside a character, which the reader is told like any other. */
  #endReply({ source, sourceStream, partText }: Passage): void {
    source.perform(undefined, (core) => {
      try {
        partText?.end();
        core.end(sourceStream);
      } catch (error) {
        core.refuse(sourceStream, toProtocolError(error, 'internal', 'the reply could not be passed on'));
      }
    });
  }

  #refuse(source: Endpoint, sourceStream: number, to: string, error: unknown): void {
    const reason = this.#transit.refuse(error, to);
    source.perform(undefined, (core) => core.refuse(sourceStream, reason));
  }

  /** Somebody has taken what the target was charged, or nobody will. */
  #settle(passage: Passage, charge: number): void {
    const { source, target, targetStream } = passage;
    // Everything was settled when the source's session ended.
    if (passage.owed === 0) return;
    passage.owed -= charge;
    if (passage.owed === 0) this.#dealings.get(source)?.unwritten.delete(passage);
    this.#transit.giveBack(target, targetStream, charge);
  }

  #forget(passage: Passage): void {
    const { source, sourceStream, target, targetStream } = passage;
    const dealings = this.#dealings.get(source);
    dealings?.asking.delete(sourceStream);
    if (passage.owed > 0) dealings?.unwritten.add(passage);
    this.#dealings.get(target)?.answering.delete(targetStream);
  }

  #of(session: Endpoint): Dealings {
    let dealings = this.#dealings.get(session);
    if (dealings === undefined) {
      dealings = { asking: new Map(), answering: new Map(), unwritten: new Set() };
      this.#dealings.set(session, dealings);
    }
    return dealings;
  }
}
