import type { HelloPayload, Message, ProtocolError, ResumeOffer } from '@parlance/protocol';
import type { EventRoute, Fields, Mailbox } from '@parlance/protocol/internal';
import type { Refusal } from '../transport/http/site.js';
import type { CheckedIdentity } from './admission/admission.js';
import type { Origin } from './admission/renewal.js';
import type { Sought, Wanted } from './admission/seek.js';
import type { ServerEndpoint, ServerEndpointOptions } from './endpoint.js';

/** What the endpoints of all sessions get from one part. No two parts give the same. */
export type PartEndpoint = Pick<
  ServerEndpointOptions,
  'keeper' | 'batch' | 'transfers' | 'createScanner' | 'readerOf'
> & {
  /** @default the mailbox of the endpoint */
  readonly createMailbox?: (() => Mailbox) | undefined;
};

/** What sessions ask of the parts of their server. */
export interface SessionParts {
  readonly endpoint: PartEndpoint;
  /** `undefined` if no part wants to know. */
  readonly onHandled: ((session: ServerEndpoint, message: Message) => void) | undefined;
  /** Where events of a session go that are not for the application. */
  routeOf(session: ServerEndpoint): EventRoute | undefined;
  /** `undefined` if no part looks for it. Never rejects. */
  seek(wanted: Wanted): Promise<Sought> | undefined;
  /** Whether a new session is put on record, or why it is refused. */
  records(hello: HelloPayload, identity: CheckedIdentity, origin: Origin): boolean | Refusal;
  claim(session: ServerEndpoint, hello: HelloPayload): Refusal | undefined;
  accepted(session: ServerEndpoint, resume: ResumeOffer | undefined): void;
  /** @throws {ProtocolError} `bad_message`, also for what no part here has saved: it must not be lost in silence. */
  load(saved: Fields): (session: ServerEndpoint, from: string | undefined) => void;
  /** Puts on record what parts save of a session. */
  record(session: ServerEndpoint): void;
}

/** What a session that leaves asks of the parts of its server. */
export interface LeavingParts {
  hold(session: ServerEndpoint): void;
  isQuiet(session: ServerEndpoint): boolean;
  leaves(session: ServerEndpoint, stream: number, how: 'move' | 'record'): boolean;
  settle(session: ServerEndpoint, reason: ProtocolError): void;
  moved(session: ServerEndpoint, node: string | undefined): void;
  release(session: ServerEndpoint): void;
  /** By the names of parts. Throws what one of them throws. */
  save(session: ServerEndpoint): Readonly<Record<string, unknown>>;
}
