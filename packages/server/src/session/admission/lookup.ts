import type { IncomingHttpHeaders } from 'node:http';
import type { HelloPayload, ProtocolError, ResumeRefusal, Subprotocol } from '@parlance/protocol';
import type { Crashable, SessionMemory, Wire } from '@parlance/protocol/internal';
import type { Peer } from '../../transport/http/door.js';
import type { Refusal } from '../../transport/http/site.js';
import type { Transport } from '../../transport/transport.js';
import type { ServerEndpoint } from '../endpoint.js';
import type { CheckedIdentity } from './admission.js';
import type { Identified } from './identify.js';
import type { Origin } from './renewal.js';

/** The target of a connection: a session of this server, or the proxy of another server's. */
export interface Target extends Crashable {
  /** The connection that is in use. */
  readonly wire: Wire | undefined;
  /** `undefined` if it reserves none. */
  readonly memory: SessionMemory | undefined;
  /** Bytes of the longest WebSocket message; `undefined` before ACCEPT. */
  readonly longestMessage: number | undefined;
  /**
   * @param isPart `handleRead` is called before the event loop continues; until then, its effects may wait for others.
   */
  handleMessage(data: Uint8Array | string, wire: Wire, now: number, isPart: boolean): void;
  /** Not needed if effects never wait. */
  handleRead?(): void;
  handleWritable(): void;
  handleDisconnected(code: number, reason: string, wire: Wire): void;
  abort(error: ProtocolError): void;
}

/** Passes a connection on to the server that has its session. */
export interface ProxyTarget extends Target {
  /** The session has come here, on the client's connection. */
  onHandedOver: (session: ServerEndpoint) => void;
}

/** A client that wants to resume a session that is not here. */
export interface LookupQuery {
  readonly sessionId: string;
  /** The bytes of its HELLO. */
  readonly hello: Uint8Array | string;
  /** The content of its HELLO. */
  readonly offer: HelloPayload;
  readonly subprotocol: Subprotocol;
  readonly identity: CheckedIdentity;
  /** The shares of the process's memory that it uses. */
  readonly memoryKeys: readonly string[];
  readonly origin: Origin;
  readonly wire: Transport;
  /** The client is gone. */
  readonly signal: AbortSignal;
  /** The session was found elsewhere: from now on the connection feeds the proxy. */
  readonly onProxied: (proxy: ProxyTarget) => void;
}

/**
 * `done` if the connection is proxied or closed; `here` if the session has come to this server; else why not, and whether the client
 * may begin a new session.
 */
export type LookupResult = 'done' | 'here' | 'stale_attempt' | ResumeRefusal | Refusal;

/** A connection whose client another server has authenticated. It may only resume one session. */
export interface ProxiedClient {
  readonly sessionId: string;
  readonly subprotocol: Subprotocol;
  readonly identity: CheckedIdentity;
  /** The client's address. */
  readonly ip: string;
  readonly headers: IncomingHttpHeaders;
  readonly isForwarded: boolean;
  /** The server that passes it on. */
  readonly source: string;
  /** Whether this is the HELLO that the other server has seen. */
  isFor(hello: Uint8Array | string): boolean;
}

/** A peer that may have been authenticated before its HELLO. */
export interface KnownPeer extends Peer {
  /** By this server. @default undefined */
  readonly identified?: Identified | undefined;
  /** By another one, which passes the connection on. @default undefined */
  readonly proxied?: ProxiedClient | undefined;
}

/** How a server answers another one that passes on a connection whose session it does not have. The reason says why. */
export const NOT_RESUMED = 4900;
