import { ByteReader } from '../bytes.js';
import { ProtocolError, type RequestError } from '../errors.js';
import type { Limits } from '../limits.js';
import { createAssembler, type ReceivedBody } from './assembly.js';
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
 * Both ends count counted frames per direction; acknowledgement, credit and resume build on these
 * counts.
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

export interface LinkOptions {
  readonly side: Side;
  /** Bounds of what is received. */
  readonly limits: Limits;
  /** Open streams that the peer admits. */
  readonly peerMaxStreams: number;
  readonly outbox: Outbox;
}

export interface Link {
  /** Streams that are open in either direction. */
  readonly openStreams: number;
  /** Counted frames received since the session began. */
  readonly framesReceived: number;

  /** @throws {ProtocolError} on any violation; the session ends then. */
  handleFrame(bytes: Uint8Array): LinkEvent | undefined;

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
  const streams = createStreamTable(side, options.peerMaxStreams, limits.maxStreams);
  const assembler = createAssembler(limits);
  let framesReceived = 0;
  let framesConfirmed = 0;

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
    streams.close(streamId);
  };

  const handleBody = (frame: LinkFrame): LinkEvent | undefined => {
    const { kind, streamId } = frame;
    if (kind === LinkKind.MESSAGE) {
      if (streamId !== 0) throw new ProtocolError('bad_frame', 'one-way messages travel on stream 0');
      const whole = assembler.add(frame);
      return whole && { type: 'message', body: whole };
    }
    if (kind === LinkKind.REQUEST) {
      // Any but the first frame of a fragmented request finds its stream open.
      const stream = assembler.isPending(streamId) ? streams.get(streamId) : streams.accept(streamId);
      if (stream === undefined) return undefined;
      const whole = assembler.add(frame);
      return whole && { type: 'request', streamId, body: whole };
    }
    const stream = answered(frame);
    if (stream === undefined) return undefined;
    const whole = assembler.add(frame);
    if (whole === undefined) return undefined;
    if (kind === LinkKind.RESPONSE) streams.close(streamId);
    if (stream.cancelled) return kind === LinkKind.RESPONSE ? { type: 'end', streamId } : undefined;
    return { type: kind === LinkKind.RESPONSE ? 'response' : 'part', streamId, body: whole };
  };

  const handleSignal = (frame: LinkFrame): LinkEvent | undefined => {
    const { kind, streamId, rest } = frame;
    switch (kind) {
      case LinkKind.END: {
        if (answered(frame) === undefined) return undefined;
        if (assembler.isPending(streamId))
          throw new ProtocolError('bad_frame', 'a stream ended inside a body');
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
        if (stream === undefined || stream.cancelled) return undefined;
        stream.cancelled = true;
        if (!assembler.isPending(streamId)) return { type: 'cancel', streamId };
        // Cancelled before the request was whole: no handler runs, so the link answers.
        finish(streamId);
        outbox.pushBehind(streamId, encodeSignalFrame(LinkKind.END, streamId));
        return undefined;
      }
      case LinkKind.ACK: {
        if (rest.length !== 0) throw new ProtocolError('trailing_bytes', 'an ack frame holds one count');
        // The count stands where other kinds have the stream ID.
        if (streamId > outbox.framesWritten) {
          throw new ProtocolError(
            'bad_frame',
            `${streamId} frames acknowledged, ${outbox.framesWritten} were sent`,
          );
        }
        framesConfirmed = Math.max(framesConfirmed, streamId);
        return undefined;
      }
      default: {
        const reader = new ByteReader(rest);
        reader.varint('the credit offset');
        reader.expectEnd('a credit frame');
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
      return framesReceived;
    },
    get framesUnconfirmed() {
      return outbox.framesWritten - framesConfirmed;
    },

    handleFrame(bytes) {
      const frame = decodeLinkFrame(bytes);
      if (isCounted(frame.kind)) framesReceived++;
      return frame.kind <= LinkKind.CHUNK ? handleBody(frame) : handleSignal(frame);
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
        streams.close(streamId);
        return true;
      }
      stream.cancelled = true;
      outbox.pushSignal(encodeSignalFrame(LinkKind.CANCEL, streamId));
      return false;
    },

    isWanted: (streamId) => streams.get(streamId)?.cancelled === false,
  };
}

/** A body that travels as it is. */
export function plainBody(bytes: Uint8Array, metadata?: Uint8Array): CodedBody {
  return { codec: LinkCodec.PLAIN, bytes, originalLength: bytes.length, secret: false, metadata };
}
