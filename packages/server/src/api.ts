import type { Server as HttpServer, IncomingMessage, ServerResponse } from 'node:http';
import type { Session } from '@parlance/protocol';
import type { RelayStats } from './agents/transit.js';
import type { DrainOptions, DrainResult } from './drain.js';
import type { ListenOptions } from './http/listener.js';

/** A server as its user sees it. */

export interface Listening {
  readonly port: number;
  readonly host: string;
  /** Where clients connect to. */
  readonly url: string;
}

export interface Server extends AsyncDisposable {
  /** Sessions that are established, by ID. */
  readonly sessions: ReadonlyMap<string, Session>;
  /** What was carried from agent to agent; all 0 where there are no agents. */
  relayStats(): RelayStats;
  /**
   * Starts an HTTP server of its own, which also answers `/healthz` and `/readyz`.
   *
   * @throws {ProtocolError} `invalid_option`; `connection_failed` where the port is taken; `invalid_argument` where
   * it listens already, or was closed.
   */
  listen(options?: ListenOptions): Promise<Listening>;
  /** Serves the session path of an HTTP server that exists; the returned function takes it back. */
  attach(server: HttpServer): () => void;
  /**
   * Serves health, readiness and metrics on a port of their own, and metrics no longer on that of the
   * sessions.
   *
   * @throws {ProtocolError} `invalid_option`; `connection_failed` where the port is taken.
   */
  listenMetrics(options?: ListenOptions): Promise<Listening>;
  /**
   * Answers `/healthz`, `/readyz` and, where they are on, the metrics: for an HTTP server that exists.
   * Returns `false` where the request is for none of them.
   */
  respond(request: IncomingMessage, response: ServerResponse): boolean;
  /**
   * Sends every session away and admits no new one; connections that were lost may still be taken up again.
   * Streams may finish until the deadline, then what is left is closed. Stops listening and resolves when no
   * session is left.
   *
   * @throws {ProtocolError} `invalid_option`.
   */
  drain(options?: DrainOptions): Promise<DrainResult>;
  /** Closes every session, waits for them up to the closing timeout, and stops listening. */
  close(): Promise<void>;
}
