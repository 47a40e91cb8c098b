import type { HelloPayload, Message, ProtocolError } from '@parlance/protocol';
import type { EventRoute, Fields, Mailbox } from '@parlance/protocol/internal';
import type { Refusal } from '../transport/http/site.js';
import type { CheckedIdentity } from './admission/admission.js';
import type { LookupQuery, LookupResult } from './admission/lookup.js';
import type { Origin } from './admission/renewal.js';
import type { ServerEndpoint, ServerEndpointOptions } from './endpoint.js';
import type { ServedSession } from './served-session.js';

/** Options that the endpoints of all sessions get from one feature. No two features give the same. */
export type FeatureEndpoint = Pick<
  ServerEndpointOptions,
  'keeper' | 'batch' | 'transfers' | 'createScanner' | 'readerOf'
> & {
  /** @default the mailbox of the endpoint */
  readonly createMailbox?: (() => Mailbox) | undefined;
};

/** A new session that a feature lets begin. */
export interface Admission {
  /** It is recorded. @default false */
  readonly isDurable?: boolean;
  /** The session was accepted. */
  accepted?(session: ServerEndpoint): void;
}

/** The hooks of the features of a server, as sessions call them. */
export interface SessionHooks {
  readonly endpoint: FeatureEndpoint;
  /** The class of the sessions that applications have. */
  readonly Session: typeof ServedSession;
  /** `undefined` if no feature wants to know. */
  readonly onHandled: ((session: ServerEndpoint, message: Message) => void) | undefined;
  /** The route of events of a session that are not for the application. */
  routeOf(session: ServerEndpoint): EventRoute | undefined;
  /** `undefined` if no feature looks for it. Never rejects. */
  lookup(wanted: LookupQuery): Promise<LookupResult> | undefined;
  /**
   * A HELLO with a nonce is about to begin a session. `undefined` if no feature shares that with other nodes. Never rejects.
   *
   * @param key the same for the same HELLO, at any node.
   * @param over a session that this HELLO has begun, and that is nowhere any more.
   * @returns the session that it has begun, here or elsewhere; `sessionId` if it has begun none.
   */
  begins(key: string, sessionId: string, over: string | undefined): Promise<string> | undefined;
  admit(hello: HelloPayload, identity: CheckedIdentity, origin: Origin): Required<Admission> | Refusal;
  /** @throws {ProtocolError} `bad_message`, also for what no feature here has saved: it must not be lost in silence. */
  load(saved: Fields): (session: ServerEndpoint, from: string | undefined) => void;
  /** Records the state that features save of a session. */
  record(session: ServerEndpoint): void;
}

/** The hooks of the features of a server that are called for a session that leaves. */
export interface LeavingHooks {
  hold(session: ServerEndpoint): void;
  isQuiet(session: ServerEndpoint): boolean;
  leaves(session: ServerEndpoint, stream: number, how: 'move' | 'record'): boolean;
  settle(session: ServerEndpoint, reason: ProtocolError): void;
  moved(session: ServerEndpoint, node: string | undefined): void;
  release(session: ServerEndpoint): void;
  /** By the names of features. Throws what one of them throws. */
  save(session: ServerEndpoint): Readonly<Record<string, unknown>>;
}
