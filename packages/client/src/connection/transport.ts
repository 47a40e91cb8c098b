import type { ProtocolError, Wire } from '@parlance/protocol/client';

/** A control message or a frame of the session: bytes, or text in `m2m.v1.json`. */
export type Frame = Uint8Array | string;

/** Opens the connections of one client. The dialer decides when, and knows nothing else of how bytes travel. */
export interface ClientTransport {
  readonly name: TransportName;
  /**
   * Opens one connection. No event comes before this has returned.
   *
   * @param url begins with `ws:` or `wss:`.
   * @param hello makes the HELLO that may travel with the request for the connection. A transport calls it at most once, before
   * the connection is open; it returns `undefined` if HELLO has to wait until the connection is open.
   * @returns the connection, which may be closed before it is open.
   * @throws {ProtocolError} `invalid_option` if this runtime or the options do not allow such connections.
   */
  open(url: URL, hello: () => Frame | undefined, events: ConnectionEvents): Wire;
  /** The end of the sentence that explains why nothing answered in time. */
  readonly ifSilent: string;
  /** Milliseconds that an attempt may take longer, because it may be two. @default 0 */
  readonly extraMs?: number | undefined;
}

export type TransportName = 'websocket' | 'http';

/** A class for the option `WebSocket` that sees what other transports carry as well. */
export interface WatchingClass {
  /** @returns the same transport, whose connections are watched. */
  watchTransport(transport: ClientTransport): ClientTransport;
}

/** The events of one connection. None of these functions throws. */
export interface ConnectionEvents {
  /** @param isSaid the server has read HELLO from the request. */
  onOpen(isSaid: boolean): void;
  onMessage(data: Frame): void;
  /** The connection may accept more data, if the transport learns of that. */
  onWritable(): void;
  /**
   * The connection is over, or could not be opened. Called once, and last.
   *
   * @param code the close code of the server, or 1006.
   */
  onClose(code: number, reason: string, failure: ConnectionFailure): void;
}

/**
 * Asked why a connection could not be opened. Returns the error for the application, `connection_failed` with the probable remedy;
 * `undefined` if the reason may be that HELLO travelled with the request, so that an attempt without it may succeed.
 */
export type ConnectionFailure = () => ProtocolError | undefined | Promise<ProtocolError | undefined>;
