import type { AvpOptions, Limits, Logger, SessionCore, SessionReset } from '@parlance/protocol';
import type {
  Clock,
  Crashable,
  EndpointOptions,
  Listeners,
  ProtocolError,
  Subprotocol,
  Ticket,
} from '@parlance/protocol/client';
import type { createBackoff } from '../connection/backoff.js';
import type { openEither } from '../connection/fall-back.js';
import type { watchPage } from '../connection/page-events.js';
import type { ClientTransport } from '../connection/transport.js';
import type { ClientEndpoint } from './endpoint.js';
import type { ClientOptions } from './options.js';
import type { ClientSession, ClientSessionHost } from './session.js';

/**
 * Something that a client does only if an option asks for it, such as surviving a reload of its page. Its code is loaded with
 * the call of `connect` that asks, and it is told what happens from then on. Every hook is optional, and only
 * `open` and `detach` may throw; modules are called in the order of `MODULES`.
 */
export interface ClientModule {
  /**
   * Opens the session in place of `next`, or around it. `next` opens the session with one more module, if one is given.
   *
   * @throws {ProtocolError} what `connect` throws.
   */
  open?(next: (module?: ClientModule) => Promise<ClientSession>): Promise<ClientSession>;
  /** The changes that the module makes to the plan of the sessions. Read before the first HELLO. */
  readonly plan?: Plan;
  /** The session of a former page continues. @default false */
  readonly isRebuilt?: boolean;
  /** The page has left the session, and may come back to it, so it needs no connection. @default false */
  readonly isAway?: boolean;
  /** Nothing is sent yet. @param later the extension `ready` that HELLO states, a JSON list of codecs. */
  begin?(sessions: Sessions, later: string | undefined): void;
  /** Before each attempt to connect but the first, which waits for it. */
  dialing?(): Promise<void>;
  /** The session of a former page continues. @param cancelled the requests that this has interrupted. */
  rebuilt?(cancelled: readonly number[]): void;
  /** A session is ready, the first one or one that follows a lost one. */
  ready?(): void;
  /** Something has happened to the present session. */
  applied?(core: SessionCore): void;
  /** The present session was lost. Returns what the application is told of what was lost with it. */
  lossOf?(reset: SessionReset): SessionReset;
  /** The page goes away. Returns whether the session is left as it is, for the page or the next one to continue with. */
  gone?(): boolean;
  /** The page goes away for good, and the session has said so. */
  left?(): void;
  /** The page is back from the back/forward cache. Connections wait until it resolves. */
  back?(): Promise<void>;
  /** See `ClientSession.detach`. Resolves to whether the session is left to the next page. */
  detach?(): Promise<boolean>;
  /** The application closes the session. */
  closing?(): void;
  /** No session follows. Called once. */
  ended?(error: ProtocolError): void;
}

/** The exports of the file of a module. */
export interface ModuleCode {
  /** @throws {ProtocolError} `invalid_option`. */
  createModule(setup: Setup): ClientModule | Promise<ClientModule>;
}

/** The plan by which the sessions of one client are made. Without a module, an option leaves its default. */
export interface Plan extends Pick<EndpointOptions, 'batch' | 'security' | 'onRequest'> {
  readonly subprotocol?: Subprotocol | undefined;
  /** How the session reaches its server: `usual`, or something else, with the clock of the session. @default `usual` */
  readonly transport?:
    | ((usual: ClientTransport, clock: Clock, either: typeof openEither) => ClientTransport)
    | undefined;
  readonly agentId?: string | undefined;
  readonly avp?: AvpOptions | undefined;
  /** Statements of extensions in HELLO that do not follow from the other options, by their names. */
  readonly statements?: Readonly<Record<string, string>> | undefined;
  /** The session of a former page, which HELLO asks for. */
  readonly proof?: Ticket | undefined;
  /** The next page can rebuild the session. @default false */
  readonly rebuilds?: boolean;
  /** Codecs that HELLO lists as not loaded. @default those that are not loaded */
  readonly later?: readonly string[] | undefined;
}

/** The sessions of one client that follow each other, for the modules that live as long as they. */
export interface Sessions extends Crashable {
  readonly current: ClientEndpoint;
  readonly id: string;
  readonly logger: Logger;
  readonly listeners: Pick<Listeners, 'notify'>;
  /** The server has accepted a session. */
  readonly isAccepted: boolean;
  /** The application or the server ends the session. */
  readonly isStopping: boolean;
  /** No session follows the present one, which is about to end. */
  stop(): void;
  /** Opens another connection beside the present one, and resumes on it. */
  move(): void;
}

/** The client that loads a module. */
export interface Setup {
  readonly url: URL;
  readonly options: ClientOptions;
  /** HTTP may take the place of WebSockets: the application has chosen neither transports nor a class that reaches the server in its own way. */
  readonly fallsBack: boolean;
  readonly limits: Limits;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly tools: Tools;
}

/** Code that the entry of a page has already: if a module imported it, bundlers would move it to a file of its own. */
export interface Tools {
  /** Opens another session. */
  readonly connect: (url: string, options: ClientOptions) => Promise<ClientSessionHost>;
  readonly createSession: (host: ClientSessionHost) => ClientSession;
  readonly hostOf: (session: ClientSession) => ClientSessionHost;
  readonly createBackoff: typeof createBackoff;
  readonly watchPage: typeof watchPage;
}
