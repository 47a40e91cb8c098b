import type { Session } from '@parlance/protocol';
import {
  called,
  keptInit,
  loadable,
  SELF,
  UserSession,
  type UserSessionHost,
  workAsTheyAre,
} from '@parlance/protocol/client';
import type { SessionFetch } from '@parlance/protocol/http';
import type { TransportName } from '../connection/transport.js';

/**
 * The session of a client. If it is lost or its server drains, a new one takes its place in the same object.
 */
export interface ClientSession extends Session {
  /** `fetch` over this session, bound to it; see {@link SessionFetch} for what it carries. */
  readonly fetch: SessionFetch;
  /** Whether `connect` has rebuilt the session of a former page; see `store`. It does not change later. */
  readonly isRebuilt: boolean;
  /**
   * While the session is `suspended`: until when the server keeps it, in Unix milliseconds of this machine's clock.
   * Otherwise, and in a tab that shares its session, `undefined`.
   */
  readonly suspendedUntil: number | undefined;
  /**
   * While the session is `suspended` and waits for its next attempt to connect: when that begins, in Unix milliseconds of this
   * machine's clock. Otherwise, and in a tab that shares its session, `undefined`.
   */
  readonly nextAttemptAt: number | undefined;
  /**
   * The transport that carries the session, or is tried first for its next connection; see the option `transports`. It
   * changes before the state becomes `established`.
   */
  readonly transport: TransportName;
  /**
   * Leaves the session to the next page: writes the entry of the option `store`, closes the connection so that the
   * server keeps the session, and ends this object, whose iterations end without an error. Resolves when the entry is
   * written and the connection closes. The server keeps the session for its `reloadWindowMs`.
   *
   * @throws {ProtocolError} `unsupported` without a store, while the session closes, or if the server cannot rebuild it.
   */
  detach(): Promise<void>;
}

export interface ClientSessionHost extends UserSessionHost {
  readonly session: ClientSession;
  readonly isRebuilt: boolean;
  readonly suspendedUntil?: number | undefined;
  readonly nextAttemptAt?: number | undefined;
  readonly transport?: TransportName | undefined;
  /** The connection is in another page or worker, so the server cannot ask this page. */
  readonly isShared?: boolean | undefined;
  detach(): Promise<void>;
}

const http = loadable('session.fetch', () => import('@parlance/protocol/http'));

// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: modules add what they declare
export class ClientUserSession extends UserSession {
  static clientHostIn(session: ClientUserSession): ClientSessionHost {
    return session[SELF].#host;
  }

  readonly fetch: SessionFetch = (input, init) =>
    called(async () => {
      const kept = init && this.#fetch === undefined ? keptInit(init) : init;
      this.#fetch ??= (await http.load()).createFetch(this, this.#host.isShared !== true);
      return await this.#fetch(input, kept);
    });
  readonly #host: ClientSessionHost;
  #fetch: SessionFetch | undefined;

  constructor(host: ClientSessionHost) {
    super(host);
    this.#host = host;
  }

  get isRebuilt(): boolean {
    return this.#host.isRebuilt;
  }

  get suspendedUntil(): number | undefined {
    return this.#host.suspendedUntil;
  }

  get nextAttemptAt(): number | undefined {
    return this.#host.nextAttemptAt;
  }

  get transport(): TransportName {
    return this.#host.transport ?? 'websocket';
  }

  detach(): Promise<void> {
    return called(() => this.#host.detach());
  }
}

/** Its methods, also those that modules have declared. */
export interface ClientUserSession extends ClientSession {}

/** The host that a session of `connect` was created with. */
export function clientHostOf(session: ClientSession): ClientSessionHost {
  return ClientUserSession.clientHostIn(session as ClientUserSession);
}

workAsTheyAre(ClientUserSession);
