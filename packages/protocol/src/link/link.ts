import { ByteReader, ByteWriter } from '../bytes.js';
import { ProtocolError, type RequestError } from '../errors.js';
import type { Limits } from '../limits.js';
import { createAcknowledgement } from './acknowledgement.js';
import { createAssembler, type ReceivedBody } from './assembly.js';
import { BODY_CHARGE, createReceiveCredit, createSendCredit, type ReceiveCreditOptions } from './credit.js';
import { decodeFailure, encodeFailure } from './failure.js';
import {
  decodeLinkFrame,
  encodeSignalFrame,
  isCounted,
  LinkCodec,
  type LinkFrame,
  LinkKind,
  type OutgoingBody,
} from './header.js';
import type { Outbox } from './outbox.js';
import { createStreamTable, type Side } from './streams.js';

/**
 * The link: messages, requests and streams of one session over link frames. Knows nothing of
 * sockets, codecs or handlers; takes frames and returns what they mean.
 *
 * Both ends count counted frames per direction and acknowledge by that count; a receiver grants credit
 * as its application consumes.
 */

/** What a link frame meant. */
export type LinkEvent =
  | { readonly type: 'message'; readonly body: ReceivedBody }
  | { readonly type: 'request'; readonly streamId: number; readonly body: ReceivedBody }
  | { readonly type: 'part'; readonly streamId: number; readonly body: ReceivedBody }
  | { readonly type: 'response'; readonly streamId: number; readonly body: ReceivedBody }
  | { readonly type: 'end'; readonly streamId: number }
  | { readonly type: 'failure'; readonly streamId: number; readonly error: ProtocolError | RequestError }
  | { readonly type: 'cancel'; readonly streamId: number };

/** A coded body as an application's message becomes one. */
export type CodedBody = Pick<OutgoingBody, 'codec' | 'bytes' | 'originalLength' | 'secret' | 'metadata'>;

/** What an end states about its link in HELLO or ACCEPT; what is not stated is unlimited. */
export interface LinkParameters {
  /** Streams that the peer may have open. */
  readonly maxStreams: number;
  /** Initial credit of stream 0, in charges. */
  readonly messageWindow: number;
  /** Initial credit of every other stream and direction, in charges. */
  readonly streamWindow: number;
}

export interface LinkOptions {
  readonly side: Side;
  /** Bounds of what is received. */
  readonly limits: Limits;
  readonly own: LinkParameters;
  readonly peer: LinkParameters;
  readonly outbox: Outbox;
}

export interface Link {
  /** Streams that are open in either direction. */
  readonly openStreams: number;
  /** Counted frames received since the session began. */
  readonly framesReceived: number;

  /** @throws {ProtocolError} on any violation; the session ends then. */
  handleFrame(bytes: Uint8Array, now: number): LinkEvent | undefined;
  /** Writes an acknowledgement that is due. */
  handleTimeout(now: number): void;
  /** When an acknowledgement is due, `Infinity` where none is. */
  nextTimeout(): number;
  /** The application has taken what a body on `streamId` was charged. Returns whether credit was granted. */
  consume(streamId: number, charge: number): boolean;
  /**
   * The peer has received `count` counted frames.
   *
   * @throws {ProtocolError} `bad_frame` where that is more than was written.
   */
  confirm(count: number): void;
  /**
   * Goes on over a new connection: what the peer has not received is written again, and credit and
   * acknowledgement are stated anew.
   *
   * @param received counted frames that the peer has received.
   * @throws {ProtocolError} as {@link confirm}.
   */
  resume(received: number): void;

  send(body: CodedBody): void;
  /** Opens a stream and returns its ID. @throws {ProtocolError} `too_many_streams`. */
  request(body: CodedBody): number;
  /** The single reply to a request. Replies to a cancelled stream become the answer to the cancel. */
  respond(streamId: number, body: CodedBody): void;
  /** One part of a reply. */
  chunk(streamId: number, body: CodedBody): void;
  end(streamId: number): void;
  fail(streamId: number, error: unknown): void;
  /** The opener wants no more. `true` where the stream is over at once, as the peer never knew of it. */
  cancel(streamId: number): boolean;
  /** Counted frames that were written and not acknowledged. */
  readonly framesUnconfirmed: number;
  /** Whether the far end of `streamId` still wants what would be sent. */
  isWanted(streamId: number): boolean;
}

export function createLink(options: LinkOptions): Link {
  const { limits, outbox, side } = options;
  const streams = createStreamTable(side, options.peer.maxStreams, options.own.maxStreams);
  const assembler = createAssembler(limits);
  const sendCredit = createSendCredit(initialCredit(options.peer));
  outbox.credit = sendCredit;
  outbox.onDrained = (streamId) => {
    if (streamId !== 0 && streams.get(streamId) === undefined) sendCredit.forget(streamId);
  };
  const acknowledgement = createAcknowledgement((count) =>
    outbox.pushStatement(encodeSignalFrame(LinkKind.ACK, count)),
  );
  const receiveCredit = createReceiveCredit({
    ...creditBounds(options.own, limits),
    state: (streamId, limit) =>
      outbox.pushStatement(
        encodeSignalFrame(LinkKind.CREDIT, streamId, new ByteWriter(8).varint(limit).finish()),
      ),
  });
  let framesConfirmed = 0;
  const confirm = (count: number): void => {
    if (count > outbox.framesWritten) {
      throw new ProtocolError('bad_frame', `${count} frames acknowledged, ${outbox.framesWritten} were sent`);
    }
    framesConfirmed = Math.max(framesConfirmed, count);
    outbox.confirm(framesConfirmed);
  };

  const body = (kind: OutgoingBody['kind'], streamId: number, coded: CodedBody): OutgoingBody => ({
    kind,
    streamId,
    codec: coded.codec,
    bytes: coded.bytes,
    originalLength: coded.originalLength,
    secret: coded.secret,
    metadata: coded.metadata,
  });

  /**
   * The stream of a frame that answers a request of this end; `undefined` where it is closed, as a
   * frame for a stream that was known may come late and is dropped.
   */
  const answered = ({ streamId }: LinkFrame) => {
    if (!isLocalId(streamId) || !streams.wasOpened(streamId)) {
      throw new ProtocolError('bad_frame', `stream ${streamId} was not opened by this end`);
    }
    return streams.get(streamId);
  };
  const isLocalId = (id: number) => id % 2 === (side === 'client' ? 1 : 0);

  const finish = (streamId: number): void => {
    assembler.drop(streamId);
    receiveCredit.close(streamId);
    streams.close(streamId);
    if (!outbox.has(streamId)) sendCredit.forget(streamId);
  };

  /** Puts a body together and charges its frames. */
  const take = (frame: LinkFrame): ReceivedBody | undefined => {
    const { streamId, rest } = frame;
    const charge = rest.length + (assembler.isPending(streamId) ? 0 : BODY_CHARGE);
    const whole = assembler.add(frame);
    receiveCredit.receive(streamId, charge, assembler.missing(streamId));
    return whole;
  };

  const handleBody = (frame: LinkFrame): LinkEvent | undefined => {
    const { kind, streamId } = frame;
    if (kind === LinkKind.MESSAGE) {
      if (streamId !== 0) throw new ProtocolError('bad_frame', 'one-way messages travel on stream 0');
      const whole = take(frame);
      return whole && { type: 'message', body: whole };
    }
    if (kind === LinkKind.REQUEST) {
      // Any but the first frame of a fragmented request finds its stream open.
      const stream = assembler.isPending(streamId) ? streams.get(streamId) : streams.accept(streamId);
      if (stream === undefined) return undefined;
      const whole = take(frame);
      return whole && { type: 'request', streamId, body: whole };
    }
    const stream = answered(frame);
    if (stream === undefined) return undefined;
    const whole = take(frame);
    if (whole === undefined) return undefined;
    if (kind === LinkKind.RESPONSE) finish(streamId);
    if (stream.cancelled) {
      // Discarded, which is as good as consumed.
      receiveCredit.consume(streamId, whole.charge);
      return kind === LinkKind.RESPONSE ? { type: 'end', streamId } : undefined;
    }
    return { type: kind === LinkKind.RESPONSE ? 'response' : 'part', streamId, body: whole };
  };

  const handleSignal = (frame: LinkFrame): LinkEvent | undefined => {
    const { kind, streamId, rest } = frame;
    switch (kind) {
      case LinkKind.END: {
        const stream = answered(frame);
        if (stream === undefined) return undefined;
        // A cancelled stream may end anywhere.
        if (assembler.isPending(streamId) && !stream.cancelled) {
          throw new ProtocolError('bad_frame', 'a stream ended inside a body');
        }
        if (rest.length !== 0) throw new ProtocolError('trailing_bytes', 'an end frame has no body');
        finish(streamId);
        return { type: 'end', streamId };
      }
      case LinkKind.ERROR: {
        if (answered(frame) === undefined) return undefined;
        const error = decodeFailure(rest, limits.maxJsonDepth);
        finish(streamId);
        return { type: 'failure', streamId, error };
      }
      case LinkKind.CANCEL: {
        if (rest.length !== 0) throw new ProtocolError('trailing_bytes', 'a cancel frame has no body');
        const stream = streams.get(streamId);
        if (isLocalId(streamId) || !streams.wasOpened(streamId)) {
          throw new ProtocolError('bad_frame', `stream ${streamId} is not the peer's to cancel`);
        }
        if (stream?.cancelled) return undefined;
        const waits = outbox.has(streamId);
        if (waits) outbox.drop(streamId);
        if (stream !== undefined && !assembler.isPending(streamId)) {
          stream.cancelled = true;
          return { type: 'cancel', streamId };
        }
        // No handler runs: it has not begun, as the request is not whole, or it has finished, and its
        // reply still waited. So the link answers.
        if (stream !== undefined || waits) {
          finish(streamId);
          outbox.pushBehind(streamId, encodeSignalFrame(LinkKind.END, streamId));
        }
        return undefined;
      }
      case LinkKind.ACK: {
        if (rest.length !== 0) throw new ProtocolError('trailing_bytes', 'an ack frame holds one count');
        // The count stands where other kinds have the stream ID.
        confirm(streamId);
        return undefined;
      }
      default: {
        const reader = new ByteReader(rest);
        const limit = reader.varint('the credit limit');
        reader.expectEnd('a credit frame');
        if (streamId !== 0 && !streams.wasOpened(streamId)) {
          throw new ProtocolError('bad_frame', `credit for stream ${streamId}, which was never opened`);
        }
        // Late credit for a stream that is over would only be kept for ever.
        const isLive = streamId === 0 || streams.get(streamId) !== undefined || outbox.has(streamId);
        if (isLive && sendCredit.raise(streamId, limit)) outbox.unblock(streamId);
        return undefined;
      }
    }
  };

  /** Replies are dropped where the opener has cancelled: the answer to that is end. */
  const reply = (streamId: number, last: boolean, push: () => void): void => {
    const stream = streams.get(streamId);
    if (stream === undefined || stream.local) return;
    if (!stream.cancelled) push();
    else if (last) outbox.pushBehind(streamId, encodeSignalFrame(LinkKind.END, streamId));
    if (last) finish(streamId);
  };

  return {
    get openStreams() {
      return streams.size;
    },
    get framesReceived() {
      return acknowledgement.received;
    },
    get framesUnconfirmed() {
      return outbox.framesWritten - framesConfirmed;
    },

    handleFrame(bytes, now) {
      const frame = decodeLinkFrame(bytes);
      const event = frame.kind <= LinkKind.CHUNK ? handleBody(frame) : handleSignal(frame);
      if (isCounted(frame.kind)) acknowledgement.handleReceived(bytes.length, now);
      return event;
    },
    handleTimeout: (now) => acknowledgement.handleTimeout(now),
    nextTimeout: () => acknowledgement.nextTimeout(),
    consume: (streamId, charge) => receiveCredit.consume(streamId, charge),
    confirm,
    resume(received) {
      confirm(received);
      outbox.replayFrom(received);
      receiveCredit.restate();
      acknowledgement.restate();
    },

    send(coded) {
      outbox.pushBody(body(LinkKind.MESSAGE, 0, coded));
    },

    request(coded) {
      const { id } = streams.open();
      outbox.pushBody(body(LinkKind.REQUEST, id, coded));
      return id;
    },

    respond: (streamId, coded) =>
      reply(streamId, true, () => outbox.pushBody(body(LinkKind.RESPONSE, streamId, coded))),

    chunk: (streamId, coded) =>
      reply(streamId, false, () => outbox.pushBody(body(LinkKind.CHUNK, streamId, coded))),

    end: (streamId) =>
      reply(streamId, true, () => outbox.pushBehind(streamId, encodeSignalFrame(LinkKind.END, streamId))),

    fail: (streamId, error) =>
      reply(streamId, true, () =>
        outbox.pushBehind(streamId, encodeSignalFrame(LinkKind.ERROR, streamId, encodeFailure(error))),
      ),

    cancel(streamId) {
      const stream = streams.get(streamId);
      if (stream === undefined || !stream.local || stream.cancelled) return false;
      if (!outbox.drop(streamId)) {
        // Nothing of it was written, so the peer never hears of it.
        finish(streamId);
        return true;
      }
      stream.cancelled = true;
      outbox.pushSignal(encodeSignalFrame(LinkKind.CANCEL, streamId));
      return false;
    },

    isWanted: (streamId) => streams.get(streamId)?.cancelled === false,
  };
}

const initialCredit = ({ messageWindow, streamWindow }: LinkParameters) => ({
  messages: messageWindow,
  stream: streamWindow,
});

/** Half of the session window is for shares, what stream 0 has more than one share comes from the rest. */
function creditBounds(own: LinkParameters, limits: Limits): Omit<ReceiveCreditOptions, 'state'> {
  const initial = initialCredit(own);
  const beyondShare = Number.isFinite(initial.messages) ? initial.messages - initial.stream : 0;
  return {
    initial,
    maxShare: limits.streamWindow,
    pool: Math.max(0, limits.sessionWindow / 2 - beyondShare),
    maxOverrun: limits.maxMessageSize,
  };
}

/** A body that travels as it is. */
export function plainBody(bytes: Uint8Array, metadata?: Uint8Array): CodedBody {
  return { codec: LinkCodec.PLAIN, bytes, originalLength: bytes.length, secret: false, metadata };
}
