import type {
  HelloPayload,
  ProtocolError,
  RequestHandler,
  ResumeRefusal,
  SessionOptions,
  Subprotocol,
} from '@parlance/protocol';
import type { MemoryBudget, Sweepable, Traffic } from '@parlance/protocol/internal';
import type { LoopShares } from '../base/loop-shares.js';
import type { Refusal } from '../transport/http/site.js';
import type { Transport } from '../transport/transport.js';
import type { KnownPeer } from './admission/lookup.js';
import type { Nonces } from './admission/nonces.js';
import type { Quotas } from './admission/quotas.js';
import type { ServerEndpoint } from './endpoint.js';
import type { LeavingHooks, SessionHooks } from './hooks.js';
import type { ServerObserver } from './observer.js';
import type { ServingOptions } from './options.js';

/** A connection without a session, which its server may end. */
export interface Unanswered extends Sweepable {
  abort(error: ProtocolError): void;
}

/** The server as its connections and sessions see it, and features that bring it sessions and connections. */
export interface SessionHost {
  readonly options: ServingOptions;
  readonly features: SessionHooks & LeavingHooks;
  /** Names the server in the IDs of its sessions. */
  readonly node: string;
  /** `undefined` without metrics. */
  readonly observer: ServerObserver | undefined;
  /** Refuse an address with too many failures or new sessions before `authenticate` runs. */
  readonly quotas: Quotas;
  /** The memory of all sessions together. */
  readonly memory: MemoryBudget;
  /** The sessions that HELLOs with a nonce have begun here. */
  readonly nonces: Nonces;
  /** The time of the event loop. */
  readonly loop: LoopShares;
  readonly onRequest: RequestHandler;
  /** Resolves with whether everything is loaded that a session with this HELLO may need; `undefined` if it is. */
  untilLoaded(hello: HelloPayload): Promise<boolean> | undefined;
  /** Options that the cores of all sessions share. */
  sessionOptions(subprotocol: Subprotocol): SessionOptions;
  /** A session by its ID, connected or suspended. */
  find(sessionId: string): ServerEndpoint | undefined;

  /** Asked before a session is accepted: refuses while draining, or beyond a quota. Counts the session that it admits. */
  admit(address: string, principal: string | undefined): Refusal | undefined;
  /** The refusal of all clients while the server drains or closes. */
  admitAny(): Refusal | undefined;
  /** Refuses, while the server closes, a connection that another node passes on. */
  admitProxied(): Refusal | undefined;
  /** Refuses a connection that is proxied to another server, while draining or beyond a quota. Counts the one that it admits. */
  admitProxy(address: string): Refusal | undefined;
  /** Counts a session that comes from another server. @throws {ProtocolError} `rate_limited`. */
  admitMoved(address: string, principal: string | undefined, isProxied: boolean): void;
  /** Counts a session whose server has died, or says why it is refused. */
  admitTakenOver(address: string, principal: string | undefined): Refusal | undefined;
  /** A session that was admitted is over. */
  release(address: string, principal: string | undefined): void;

  /** A connection that another server may have authenticated. */
  begin(transport: Transport, peer: KnownPeer, subprotocol: Subprotocol, refusal: Refusal | undefined): void;
  /** A connection waits for its HELLO. It may be one too many. */
  onConnected(connection: Unanswered, peer: KnownPeer): void;
  /** HELLO has come: from now on the client waits for the server. */
  onHello(connection: Unanswered): void;
  /**
   * HELLO is answered, or the connection ends without an answer.
   *
   * @param unserved what was sent and received, unless a session has the connection from now on.
   */
  onGreeted(connection: Unanswered, unserved: Traffic | undefined): void;
  /** A client is given a new session in place of the one that it wants to resume. */
  onNotResumed(sessionId: string, reason: ResumeRefusal): void;

  /** A session has a client, whose HELLO is being accepted. */
  onBegun(session: ServerEndpoint): void;
  /** The session is established and may be handed to the application. */
  onReady(session: ServerEndpoint): void;
  /** A session that was made elsewhere is here from now on. @param join gives it to features. */
  onRestored(session: ServerEndpoint, join: () => void): void;
  /** Another connection is about to carry the session. */
  onResumed(session: ServerEndpoint): void;
  /** Calls `onSession`, again for a session that stays. */
  run(session: ServerEndpoint): void;
  /** The session has lost its connection; another one may resume it. */
  onWireLost(session: ServerEndpoint): void;
  /** The session is over. */
  onEnded(session: ServerEndpoint, error: ProtocolError | undefined): void;
}
