import type { Traffic, Wire } from '@parlance/protocol/internal';

export interface TransportEvents {
  /**
   * @param size length of the message in bytes, which differs from the length of a string.
   * @param isPart `onData` follows before the event loop continues, after the other messages of the same read.
   */
  onMessage(data: Uint8Array | string, size: number, isPart?: boolean): void;
  /** A WebSocket ping or pong. */
  onControl(): void;
  /** Bytes were read from the network. Messages that they complete are reported first. */
  onData(size: number): void;
  /** The transport can be written to again. */
  onDrain(): void;
  onClose(code: number, reason: string): void;
  /** Writing has failed with an error that the transport itself does not report. */
  onFault(error: unknown): void;
}

/** One connection of a client. It reports its events after `listen`, and knows nothing of sessions. */
export interface Transport extends Wire {
  readonly traffic: Traffic;
  /** Bytes that may surround one message before they count as flooding. */
  readonly overhead: number;
  listen(events: TransportEvents): void;
  /** Stops reading until {@link unhold} is called as often as this, independently of `pause` and `resume`. */
  hold(): void;
  unhold(): void;
  /** Ends the connection without a closing handshake. */
  terminate(): void;
}

/** Time for a client to read why its connection is closed, or to close it. */
const LINGER_MS = 1_000;

/** Ends the connection without a closing handshake, if the client has not closed it in a second. */
export function terminateSoon(transport: Pick<Transport, 'terminate'>): void {
  setTimeout(() => transport.terminate(), LINGER_MS).unref();
}
