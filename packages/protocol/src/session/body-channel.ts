import type { ProtocolError } from '../base/errors.js';
import type { BodyCounts } from '../codec/body.js';
import type { ContextUse } from '../link/context-coding.js';
import type { BodyToSend, OutgoingTransfer } from '../link/link.js';

/**
 * Sends and receives the bodies of one session: over the link if that was negotiated, else as bare frames. Before
 * ACCEPT nothing can be sent.
 */
export interface Channel {
  /** Server: something will be told once it is recorded. @default false */
  readonly hasUntold?: boolean;
  /** Whether streams, requests and fragments are available. */
  readonly hasLink: boolean;
  /** Number of streams that are open, in both directions together. */
  readonly openStreams: number;
  /** Streams that this end may open now, of the {@link maxStreams} that the peer allows. */
  readonly freeStreams: number;
  readonly maxStreams: number;
  /** The messages that each direction keeps for context coding; `undefined` unless that was agreed. */
  readonly contextUse: { readonly sent: ContextUse; readonly received: ContextUse } | undefined;
  /** Bytes of memory of messages that context coding keeps packed, beyond the first MiB of each direction. */
  readonly packedBytes: number;
  /** Counted frames received since the session began, or since its link was rebuilt. */
  readonly framesReceived: number;
  /** Counted frames that the peer has acknowledged. */
  readonly framesConfirmed: number;
  /** Counted frames that were written and that the peer has not acknowledged. */
  readonly framesUnconfirmed: number;
  /** Bodies that were written completely; `undefined` before the first. */
  readonly sentBodies: BodyCounts | undefined;

  /** @throws {ProtocolError} `session_closed`, `unsupported`, `message_too_large`. */
  send(body: BodyToSend): void;
  /**
   * Opens a stream and returns its ID.
   *
   * @throws {ProtocolError} as `send`, and `too_many_streams`, `draining`.
   */
  request(body: BodyToSend): number;
  /**
   * Opens a stream with the beginning of a tensor and returns its ID; {@link feed} adds the rest.
   *
   * @throws {ProtocolError} `session_closed`, `unsupported`, `transfer_too_large`, `too_many_streams`.
   */
  transfer(transfer: OutgoingTransfer): number;
  /** Adds the next bytes of a transfer, at least one; they must not change before they are written. */
  feed(streamId: number, bytes: Uint8Array, onWritten?: () => void): void;
  /** Answers a request with its only reply, which is dropped if the peer has cancelled the request. */
  respond(streamId: number, body: BodyToSend): void;
  /** Sends one part of a reply, which is dropped if the peer has cancelled the request. */
  chunk(streamId: number, body: BodyToSend): void;
  /** Ends a reply that was sent in parts. */
  end(streamId: number): void;
  /** Answers a request with an error. */
  fail(streamId: number, error: unknown): void;
  /** Refuses a tensor, even before it has arrived completely. */
  refuse(streamId: number, error: ProtocolError): void;
  /** Cancels a request of this end. */
  cancel(streamId: number): void;
  /**
   * The application has consumed a body that cost `charge`. Returns whether that granted the peer credit, so that
   * there is something to transmit.
   *
   * @param streamId 0 for one-way messages.
   */
  consume(streamId: number, charge: number): boolean;
  /** Bytes that wait to be written on one stream. */
  queuedOn(streamId: number): number;
  /** Estimated memory, in bytes, of what waits to be written on one stream. */
  memoryOf(streamId: number): number;
  /** Forgets the message with this `onDropped` if none of it is written. Returns whether it did. */
  withdraw(onDropped: () => void): boolean;
  /** Stops or resumes granting the peer credit, when memory runs short. */
  holdCredit(isHeld: boolean): void;
  /** The handler of a received request is stopped by a cancel of its requester alone, and not by a rebuilt link. */
  runToCompletion(streamId: number): void;
  /** Whether the peer still wants to receive on `streamId`. */
  isWanted(streamId: number): boolean;
}
