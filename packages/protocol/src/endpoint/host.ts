import { ProtocolError } from '../base/errors.js';
import type { SessionMemory } from '../base/memory.js';
import type { Negotiated } from '../control/agreement.js';
import type { SessionCore } from '../session/types.js';
import type { EndpointOptions } from './endpoint-options.js';
import type { Crashable } from './guard.js';
import type { CodecLoading } from './loading.js';
import type { Mailbox } from './messages/mailbox.js';
import type { MessageOwner } from './messages/message.js';
import type { ContentScanner, Logger } from './ports.js';
import type { Session, SessionEvents } from './session.js';
import type { StatsRecorder } from './stats.js';

/** The endpoint of a session as its inbound and its outbound half see it. */
export interface EndpointHost extends Crashable, MessageOwner {
  readonly core: SessionCore;
  readonly options: EndpointOptions;
  readonly logger: Logger;
  readonly recorder: StatsRecorder;
  /** The session that handlers and scans are given. */
  readonly session: Session;
  /** The ID of the client, at both ends. */
  readonly agentId: string | undefined;
  /** The names of sender and receiver in what this end sends; '' for the server. */
  readonly ends: { readonly source: string; readonly target: string };
  readonly negotiated: Negotiated;
  readonly memory: SessionMemory;
  readonly mailbox: Mailbox;
  readonly scanner: ContentScanner | undefined;
  readonly loading: CodecLoading;
  /** Server: all codecs are loaded. */
  readonly isPreloaded: boolean;
  /** Writes the pending frames; enough after commands that cause no events. */
  transmit(): void;
  /** Writes the pending frames and handles events. Never throws. */
  pump(): void;
  /** A handler has ended. */
  handleAnswered?(): void;
  /** Server: whether the application has handled a message already, as the record says. */
  hasHandled?(number: number): boolean;
  /** Server: a handler is to be called again if this process dies. */
  repeat?(streamId: number): void;
  /** Server: see `KeptRequest.mark`. */
  markKept?(streamId: number, id: string): Promise<void> | undefined;
  /** Server: resolves when the messages sent so far are recorded; `undefined` if the session is not recorded. */
  recorded?(): Promise<void> | undefined;
  /** Server: a tensor has arrived or was taken as a whole, or why not. */
  handleTransfer?(direction: 'sent' | 'received', error: unknown): void;
  notify<Name extends keyof SessionEvents>(name: Name, event: SessionEvents[Name]): void;
}

/** The error of what was under way when a session was closed in order, by the end that has closed it. */
export function sessionClosed({ closeStatement }: Pick<SessionCore, 'closeStatement'>): ProtocolError {
  return new ProtocolError('session_closed', 'the session was closed', { side: closeStatement.side });
}
