import type { ProtocolError } from '../base/errors.js';
import type { Reservation } from '../base/memory.js';
import type { SecurityStatus } from '../codec/body.js';
import type { SessionEvent } from '../session/types.js';
import type { BodyEvent } from './messages/intake.js';
import type { Message } from './messages/message.js';
import type { Session } from './session.js';
import type { Traffic } from './traffic.js';

/** Interfaces to the program around an endpoint, which the server, the client and tests implement. */

/**
 * Server: takes the events of one session that concern others: messages and requests to other clients, and relayed
 * streams.
 */
export interface EventRoute {
  /** Whether a stream leads to another session, in either direction. */
  isRelayed(streamId: number): boolean;
  /**
   * Takes an addressed event, or one of a relayed stream. Returns false if the event is for this end.
   *
   * @param reservation the memory that {@link memoryOf} asked for.
   */
  take(event: SessionEvent, reservation: Reservation | undefined): boolean;
  /**
   * Bytes of memory that relaying the body needs, 0 if it is relayed unchanged; `undefined` if it is for this
   * end.
   */
  memoryOf(event: BodyEvent): number | undefined;
  /**
   * The link of this end was rebuilt, before anything is written on it. Messages that the client had not received are
   * written again.
   *
   * @param confirmed frames of the former link that the client had received.
   */
  handleRebuilt(confirmed: number): void;
  /** Ends a relayed reply for which there is no memory. Returns whether the stream is relayed. */
  refuse(streamId: number, error: ProtocolError): boolean;
}

/** A message that a scan marks with its result. */
export interface Scannable extends Message {
  securityStatus: SecurityStatus | undefined;
}

/** The session whose content a scanner looks at. */
export interface ScannerHost {
  readonly session: Session;
  /** Ends the session because of a fault. Never throws. */
  crash(error: unknown): void;
  /** Ends the session with REJECT SECURITY_POLICY. */
  block(message: string): void;
}

/** Server: holds received content back until the application's scan has seen it. */
export interface ContentScanner {
  /** Settles when no message waits for its scan; `undefined` if none does. */
  readonly pending: Promise<void> | undefined;
  /** No content waits for its scan. */
  readonly isIdle: boolean;
  /** Calls `deliver` if the scan lets the message pass, in the order of the messages. */
  takeMessage(message: Scannable, deliver: () => void): void;
  /** Calls `deliver` if the scan lets the request or tensor pass. Requests do not wait for each other. */
  takeRequest(message: Scannable, deliver: () => void): void;
  /** Marks a message with the result. @throws {ProtocolError} `forbidden` if it is blocked. */
  judge(message: Scannable, direction: 'received' | 'sent'): Promise<void>;
}

/** One WebSocket connection. */
export interface Wire {
  /** Bytes of the connection so far, if the wire counts them; see {@link Traffic}. */
  readonly traffic?: Traffic;
  /** Bytes that were sent and have not left the process. */
  readonly bufferedAmount: number;
  /** Bytes up to which the session writes: with more, small messages would wait for large ones. @default 256 KiB */
  readonly highWater?: number | undefined;
  /**
   * The session reuses the frame's memory once its peer has confirmed it, so a wire within one process must
   * copy the frame.
   */
  send(frame: Uint8Array | string): void;
  close(code: number, reason: string): void;
  /** Ends the connection without a closing handshake, if the socket can. */
  terminate?(): void;
  /** Stops reading, which stops the peer's writing, if the socket can. */
  pause?(): void;
  resume?(): void;
}

/**
 * A structured logger such as pino. Lines never hold payloads or tokens. The field `event` names what
 * happened for programs; it stays the same when the wording of the message changes.
 */
export interface Logger {
  debug(fields: Readonly<Record<string, unknown>>, message: string): void;
  info(fields: Readonly<Record<string, unknown>>, message: string): void;
  warn(fields: Readonly<Record<string, unknown>>, message: string): void;
  error(fields: Readonly<Record<string, unknown>>, message: string): void;
}

const nothing = () => {};
export const SILENT_LOGGER: Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing };
