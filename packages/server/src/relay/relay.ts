import {
  type BodyPiece,
  type CodedBody,
  DELIVERY,
  DIRECTORY,
  type Endpoint,
  encodeUndeliverable,
  LinkCodec,
  type Logger,
  loggable,
  ProtocolError,
  type ReceivedBody,
  type SessionEvent,
  TRANSFER_OVERHEAD,
  toProtocolError,
  type Undeliverable,
} from '@parlance/protocol';
import type { Agent, Directory } from '../directory.js';
import { HandOvers, Ordinals } from './hand-over.js';
import type { Policy, RelayKind } from './policy.js';
import { addressed, isSharedCoding, type PartText, passOn, recode } from './recode.js';

/**
 * Carries messages and requests from agent to agent. Bodies pass as they came; credit is given back to
 * a sender only when its receiver's connection has taken what it sent, so a receiver that stalls stops
 * its senders and nobody else, and what waits here is bounded by their windows.
 */

/** What a server's relay has done since it began. */
export interface RelayStats {
  /** Bodies that were passed on as they came. */
  readonly forwarded: number;
  /** Bodies that were decoded and coded anew, as the two sessions have not the same coding. */
  readonly recoded: number;
  /** Messages and requests that nobody was given. */
  readonly refused: number;
  /** One-way messages of which nobody knows whether they arrived. */
  readonly unknown: number;
}

/** A request that goes through. */
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
}

/** What the relay knows of a session. */
interface Member {
  /** Requests of this session to others, by its own stream. */
  readonly asking: Map<number, Passage>;
  /** Requests of others to this session, by the stream that leads to it. */
  readonly answering: Map<number, Passage>;
  readonly handOvers: HandOvers;
  readonly ordinals: Ordinals;
  /** Replies to this session that are not written. */
  readonly unwritten: Set<UnwrittenReply>;
}

interface UnwrittenReply {
  /** Whose it is, and what it costs of that session's credit. */
  readonly target: Endpoint;
  readonly targetStream: number;
  readonly charge: number;
}

/** Reports that may wait for a session that does not read them, in bytes. */
const MAX_REPORTS = 1024 * 1024;

export class Relay {
  readonly stats: { -readonly [Key in keyof RelayStats]: RelayStats[Key] } = {
    forwarded: 0,
    recoded: 0,
    refused: 0,
    unknown: 0,
  };
  readonly #directory: Directory;
  readonly #policy: Policy;
  readonly #logger: Logger;
  readonly #members = new Map<Endpoint, Member>();
  /** Sessions that were given credit and have to say so. */
  #due = new Set<Endpoint>();

  constructor(directory: Directory, policy: Policy, logger: Logger) {
    this.#directory = directory;
    this.#policy = policy;
    this.#logger = logger;
  }

  /** Takes what `session` addresses to others, and what it answers them. */
  take(session: Endpoint, event: SessionEvent): boolean {
    switch (event.type) {
      case 'message':
        if (event.body.agent === undefined) return false;
        this.#message(session, event.body.agent, event.body);
        return true;
      case 'request':
        if (event.body.agent === undefined) return false;
        this.#request(session, event.streamId, event.body.agent, event.body);
        return true;
      case 'piece':
        return this.#piece(session, event.streamId, event.piece);
      case 'part':
      case 'response':
      case 'end':
      case 'failure': {
        const passage = this.#members.get(session)?.answering.get(event.streamId);
        if (passage !== undefined) this.#reply(passage, event);
        return passage !== undefined;
      }
      case 'cancel': {
        const passage = this.#members.get(session)?.asking.get(event.streamId);
        // Answered when the target has answered: until then the stream keeps its slot.
        passage?.target.perform(undefined, (core) => core.cancel(passage.targetStream));
        return passage !== undefined;
      }
      default:
        return false;
    }
  }

  /** Whether another session has asked `session` on this stream. */
  isAsked(session: Endpoint, streamId: number): boolean {
    return this.#members.get(session)?.answering.has(streamId) ?? false;
  }

  /** The session is over: what it owed and what it was owed is settled. */
  handleEnded(session: Endpoint): void {
    const member = this.#members.get(session);
    if (member === undefined) return;
    this.#members.delete(session);
    this.#due.delete(session);
    for (const { target, targetStream } of member.asking.values()) {
      this.#members.get(target)?.answering.delete(targetStream);
      target.perform(undefined, (core) => core.cancel(targetStream));
    }
    for (const { source, sourceStream, to, frame } of member.answering.values()) {
      this.#members.get(source)?.asking.delete(sourceStream);
      const knows = frame > 0 ? 'it may have begun to work on the request' : 'it never had the request';
      const error = new ProtocolError('peer_gone', `the session of agent ${to} is over; ${knows}`);
      source.perform(undefined, (core) => core.fail(sourceStream, error));
    }
    for (const { source, charge } of member.handOvers.waiting()) this.#giveBack(source, 0, charge);
    for (const { target, targetStream, charge } of member.unwritten)
      this.#giveBack(target, targetStream, charge);
    member.unwritten.clear();
    for (const { source, report } of member.handOvers.lost(session.core.framesConfirmed)) {
      if (report.outcome === 'unknown') this.stats.unknown += report.count;
      else this.stats.refused += report.count;
      this.#report(source, report);
    }
  }

  // --- one-way messages

  #message(source: Endpoint, to: string, body: ReceivedBody): void {
    const ordinal = this.#member(source).ordinals.next(to);
    try {
      const { session: target } = this.#admit(source, to, 'message', body);
      const { handOvers } = this.#member(target);
      const coded = this.#convert(body, source, target);
      handOvers.add({ source, to, ordinal, charge: body.charge });
      const onWritten = (frame: number) => {
        const handOver = handOvers.written(frame, target.core.framesConfirmed);
        if (handOver !== undefined) this.#giveBack(handOver.source, 0, handOver.charge);
      };
      this.#give(target, coded, source, onWritten, (core, coded) => {
        try {
          core.send(coded);
        } catch (error) {
          handOvers.takeBack();
          throw error;
        }
      });
    } catch (error) {
      this.stats.refused++;
      const reason = this.#reasonOf(error, to).code;
      // Its credit comes back with the report, so that nobody is sent reports without reading them.
      this.#report(source, { to, outcome: 'not_sent', reason, first: ordinal, count: 1 }, () =>
        this.#giveBack(source, 0, body.charge),
      );
    }
  }

  #report(source: Endpoint, report: Undeliverable, onWritten?: () => void): void {
    if (source.state !== 'established' && source.state !== 'suspended') return;
    if (source.core.queuedOn(0) > MAX_REPORTS) {
      source.abort(new ProtocolError('window_exceeded', 'reports of delivery are not read'));
      return;
    }
    const coded = source.coder.encode(encodeUndeliverable(report), {});
    source.perform(coded, (core) => core.send({ ...coded, agent: DELIVERY, onWritten }));
  }

  // --- requests

  #request(source: Endpoint, sourceStream: number, to: string, body: ReceivedBody): void {
    if (to === DIRECTORY) {
      void source.answer(sourceStream, body, this.#directory.handlerFor(source));
      return;
    }
    // It may have been cancelled while it was looked at.
    if (!source.core.isWanted(sourceStream))
      return source.perform(undefined, (core) => core.end(sourceStream));
    try {
      const { session: target } = this.#admit(source, to, 'request', body);
      const coded = this.#convert(body, source, target);
      const opening = this.#open({ source, sourceStream, target, to, kind: 'request' });
      const onWritten = (count: number) => {
        opening.onWritten(count);
        this.#giveBack(source, sourceStream, body.charge);
      };
      this.#give(target, coded, source, onWritten, (core, coded) => {
        opening.begin(core.request(coded));
      });
    } catch (error) {
      this.#refuse(source, sourceStream, to, error);
    }
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
        passage = { ...known, targetStream, frame, partText: undefined };
        this.#member(known.source).asking.set(known.sourceStream, passage);
        this.#member(known.target).answering.set(targetStream, passage);
      },
      onWritten(count) {
        frame = count;
        if (passage !== undefined) passage.frame = count;
      },
    };
  }

  #refuse(source: Endpoint, sourceStream: number, to: string, error: unknown): void {
    this.stats.refused++;
    const reason = this.#reasonOf(error, to);
    source.perform(undefined, (core) => core.fail(sourceStream, reason));
  }

  /** Tensors pass piece by piece: each is credited to its sender when it is written to its receiver. */
  #piece(source: Endpoint, sourceStream: number, piece: BodyPiece): boolean {
    const { agent: to, bytes, charge } = piece;
    if (to !== undefined) {
      this.#tensor(source, sourceStream, to, piece);
      return true;
    }
    const passage = this.#members.get(source)?.asking.get(sourceStream);
    if (passage === undefined) return false;
    const { target, targetStream } = passage;
    const onWritten = () => this.#giveBack(source, sourceStream, charge);
    target.perform(undefined, (core) => core.feed(targetStream, bytes, onWritten));
    return true;
  }

  /** The first piece of a tensor. */
  #tensor(source: Endpoint, sourceStream: number, to: string, piece: BodyPiece): void {
    const { bytes: first, totalLength, charge } = piece;
    // It may have been cancelled while it was looked at.
    if (!source.core.isWanted(sourceStream)) return;
    try {
      const { session: target } = this.#admit(source, to, 'tensor', undefined);
      const opening = this.#open({ source, sourceStream, target, to, kind: 'tensor' });
      const transfer = {
        // How much of it is not the tensor is for its receiver to find out.
        payloadSize: Math.max(0, totalLength - TRANSFER_OVERHEAD),
        totalLength,
        first,
        onFirstWritten: () => this.#giveBack(source, sourceStream, charge),
        agent: source.agentId,
        onWritten: opening.onWritten,
      };
      target.perform(totalLength, (core) => opening.begin(core.transfer(transfer)));
      this.stats.forwarded++;
    } catch (error) {
      this.#refuse(source, sourceStream, to, error);
    }
  }

  #reply(
    passage: Passage,
    event: Extract<SessionEvent, { type: 'part' | 'response' | 'end' | 'failure' }>,
  ): void {
    const { source, sourceStream, target, targetStream } = passage;
    if (event.type !== 'part') this.#forget(passage);
    if (event.type === 'end') return source.perform(undefined, (core) => core.end(sourceStream));
    if (event.type === 'failure') {
      return source.perform(undefined, (core) => {
        // What a receiver finds wrong with a tensor is told to whoever sent it.
        if (passage.kind === 'tensor') core.refuse(sourceStream, event.error as ProtocolError);
        else core.fail(sourceStream, event.error);
      });
    }
    const { body } = event;
    const { unwritten } = this.#member(source);
    const reply = { target, targetStream, charge: body.charge };
    const onTaken = () => {
      if (unwritten.delete(reply)) this.#giveBack(target, targetStream, body.charge);
    };
    unwritten.add(reply);
    // Who has cancelled or left takes no more, and what nobody takes is as good as taken.
    const isWanted = source.core.isWanted(sourceStream);
    if (!isWanted) onTaken();
    if (!isWanted && event.type === 'part') return;
    try {
      const converted = this.#convert(body, target, source, event.type === 'part' ? passage : undefined);
      const coded = addressed(converted, undefined, onTaken, onTaken);
      source.perform(coded, (core) => {
        if (event.type === 'part') core.chunk(sourceStream, coded);
        else core.respond(sourceStream, coded);
      });
    } catch (error) {
      onTaken();
      this.#forget(passage);
      const reason = this.#reasonOf(error, passage.to);
      target.perform(undefined, (core) => core.cancel(targetStream));
      source.perform(undefined, (core) => core.fail(sourceStream, reason));
    }
  }

  // --- both

  /** @throws {ProtocolError} as the policy, and `unknown_agent` for the server's own names. */
  #admit(source: Endpoint, to: string, kind: RelayKind, body: ReceivedBody | undefined): Agent {
    if (to.startsWith('@')) throw new ProtocolError('unknown_agent', `nothing takes a ${kind} at ${to}`);
    return this.#policy.admit(source, to, kind, body);
  }

  /** @param passage of the stream that the body is a part of. */
  #convert(body: ReceivedBody, from: Endpoint, to: Endpoint, passage?: Passage): CodedBody {
    // No coding against earlier messages may compare what two principals send.
    const secret = body.secret || from.principal !== to.principal;
    if (isSharedCoding(body, from.negotiated, to.negotiated)) {
      this.stats.forwarded++;
      return passOn(body, secret);
    }
    this.stats.recoded++;
    const isTokenPart = passage !== undefined && body.codec === LinkCodec.TOKEN_NATIVE;
    if (isTokenPart) passage.partText ??= from.coder.createPartText();
    return recode({ ...body, secret }, from.coder, to.coder, passage?.partText);
  }

  /** Gives a body to another session, as from the agent that its sender has authenticated as. */
  #give(
    target: Endpoint,
    coded: CodedBody,
    source: Endpoint,
    onWritten: (frame: number) => void,
    command: (core: Endpoint['core'], coded: CodedBody) => void,
  ): void {
    const body = addressed(coded, source.agentId, onWritten);
    target.perform(body, (core) => command(core, body));
  }

  /**
   * Somebody has taken what `session` sent. What its credit lets follow is looked at later, as this is
   * called while another session writes.
   */
  #giveBack(session: Endpoint, streamId: number, charge: number): void {
    if (!session.core.consume(streamId, charge)) return;
    if (this.#due.size === 0) queueMicrotask(() => this.#pumpDue());
    this.#due.add(session);
  }

  #pumpDue(): void {
    const due = this.#due;
    // A set that is cleared and lives on takes new memory among what is old every time, and whoever asks
    // for that has V8 look whether it is time to collect everything: with much in buffers it always is.
    this.#due = new Set();
    for (const session of due) session.pump();
  }

  #forget({ source, sourceStream, target, targetStream }: Passage): void {
    this.#members.get(source)?.asking.delete(sourceStream);
    this.#members.get(target)?.answering.delete(targetStream);
  }

  #member(session: Endpoint): Member {
    let member = this.#members.get(session);
    if (member === undefined) {
      member = {
        asking: new Map(),
        answering: new Map(),
        handOvers: new HandOvers(),
        ordinals: new Ordinals(),
        unwritten: new Set(),
      };
      this.#members.set(session, member);
    }
    return member;
  }

  /** What a sender is told; what is no failure of its request stays here. */
  #reasonOf(error: unknown, to: string): ProtocolError {
    const reason = toProtocolError(error, 'internal', 'the relay failed');
    if (reason.code === 'internal')
      this.#logger.error({ event: 'relay.failed', to, err: loggable(error) }, 'the relay failed');
    // To the sender its target is gone, however that ends.
    if (reason.code !== 'session_closed') return reason;
    return new ProtocolError('peer_gone', `the session of agent ${to} closes; it never had the body`);
  }
}
