import type { ProtocolError } from '../base/errors.js';
import type { Reservation } from '../base/memory.js';
import type { SessionEvent } from '../session/types.js';
import type { BodyEvent } from './messages/intake.js';

/** What an endpoint needs from the program around it; drivers of sockets and tests provide it. */

/**
 * Server: what becomes of the events of a session that are not for the server's own user, such as
 * messages to other agents.
 */
export interface EventRoute {
  /**
   * Whether the event was taken.
   *
   * @param reservation of the memory that {@link memoryOf} asked for.
   */
  take(event: SessionEvent, reservation?: Reservation): boolean;
  /** Bytes that a body takes which goes on to others: 0 if it passes as it is; `undefined` if it does not go on. */
  memoryOf(event: BodyEvent): number | undefined;
  /** There is no memory for what answers another session. Returns whether it does. */
  refuse(streamId: number, error: ProtocolError): boolean;
  /** Whether somebody else has asked on a stream of this end, and is who replies on it are for. */
  isAsked(streamId: number): boolean;
}

/** One WebSocket connection. */
export interface Wire {
  /** Bytes handed over that have not left the process. */
  readonly bufferedAmount: number;
  /**
   * The session writes to the frame's memory again once its peer has confirmed it, so a wire that hands
   * the frame to somebody in the same process hands over a copy.
   */
  send(frame: Uint8Array | string): void;
  close(code: number, reason: string): void;
  /** Ends the connection without a closing handshake, where the socket can. */
  terminate?(): void;
  /** Stops reading, so that the peer's writing comes to a halt, where the socket can. */
  pause?(): void;
  resume?(): void;
}

/**
 * What happened that somebody should know; never payloads, never tokens. `event` among the fields names it
 * for programs, and does not change with the wording of the message.
 */
export interface Logger {
  debug(fields: Readonly<Record<string, unknown>>, message: string): void;
  info(fields: Readonly<Record<string, unknown>>, message: string): void;
  warn(fields: Readonly<Record<string, unknown>>, message: string): void;
  error(fields: Readonly<Record<string, unknown>>, message: string): void;
}

const nothing = () => {};
export const SILENT_LOGGER: Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing };
