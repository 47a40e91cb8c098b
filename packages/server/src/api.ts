import type { Server as HttpServer, IncomingMessage, ServerResponse } from 'node:http';
import type { AsyncDisposal } from '@parlance/protocol';
import type { RelayStats } from './agents/transit.js';
import type { DrainOptions, DrainResult } from './drain-options.js';
import type { Group } from './groups/group.js';
import type { ListenOptions } from './http/listener.js';
import type { ServerSession } from './served-session.js';

/** The server as an application sees it. */

export interface Listening {
  readonly port: number;
  readonly host: string;
  /** The URL that clients connect to. */
  readonly url: string;
}

/** @typeParam Data of `session.data`. */
export interface Server<Data = unknown> extends AsyncDisposal {
  /** Established sessions, by ID. */
  readonly sessions: ReadonlyMap<string, ServerSession<Data>>;
  /**
   * The group of this name, which need not exist.
   *
   * @param name 1 to 256 UTF-16 units.
   * @throws {ProtocolError} `invalid_argument`.
   */
  group(name: string): Group<Data>;
  /** Counts of the messages and requests relayed between agents; all 0 without agents. */
  relayStats(): RelayStats;
  /**
   * Starts an HTTP server, which also answers `/healthz`, `/readyz` and, if they are on, the metrics.
   *
   * @throws {ProtocolError} `invalid_option`; `connection_failed` if the port cannot be opened; `invalid_argument` if
   * the server is already listening, is about to, or was closed, meanwhile too.
   */
  listen(options?: ListenOptions): Promise<Listening>;
  /**
   * Serves sessions on an existing HTTP server, at `path`. Returns a function that stops this. Upgrades for other paths are
   * left to its other listeners; those that none takes are answered with 404.
   *
   * @throws {ProtocolError} `invalid_argument` if it is not an HTTP server, such as an Express app, or is attached already, or
   * if this server was closed.
   */
  attach(server: HttpServer): () => void;
  /**
   * Serves health, readiness and metrics on a separate port; the port of the sessions no longer serves metrics.
   *
   * @throws {ProtocolError} `invalid_option`; `connection_failed` if the port cannot be opened; `invalid_argument` if
   * metrics are already being served, are about to be, or the server was closed.
   */
  listenMetrics(options?: ListenOptions): Promise<Listening>;
  /**
   * Answers a request to an existing HTTP server for `/healthz`, `/readyz` or, if they are on, the metrics.
   * Returns `false` for other requests.
   */
  respond(request: IncomingMessage, response: ServerResponse): boolean;
  /** Where the operator's port is, as soon as it is open; `undefined` without `admin()`. */
  readonly admin: Listening | undefined;
  /**
   * Sends GOAWAY to every session and admits no new ones; sessions that lose their connection may still resume.
   * Streams may finish until the deadline; sessions that are left then are closed. A client that has been away for 5 s is
   * not waited for, unless other nodes go on with its session. Stops listening and resolves when no session is left.
   *
   * @throws {ProtocolError} `invalid_option`.
   */
  drain(options?: DrainOptions): Promise<DrainResult>;
  /**
   * Closes every session, waits for this up to the closing timeout, and stops listening. What is being opened is given up: a
   * `listen` that has not resolved rejects. All calls get one promise.
   */
  close(): Promise<void>;
}
