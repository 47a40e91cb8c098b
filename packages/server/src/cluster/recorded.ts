import type { Logger, ResumeRefusal, Timers } from '@parlance/protocol';
import { fencedError } from '@parlance/protocol/internal';
import type { Refusal } from '../admission/admission.js';
import type { Wanted } from '../admission/seek.js';
import type { ReplySource } from '../backplane/replies.js';
import type { ServerEndpoint } from '../endpoint.js';
import { Port } from '../parts/part.js';

/** Sessions on record: what nodes ask of the part that keeps them. */
export interface RecordedSessions {
  /** New sessions cannot be put on record at present. */
  readonly isStalled: boolean;
  /** Sessions that were taken over from nodes that have died. */
  readonly takenCount: number;
  /** Checks the engine, before others know of this node. @throws {ProtocolError} `unsupported`. */
  prepare(): Promise<void>;
  /** Takes a session whose node is `gone`. `busy` if the engine does not answer, or another node is faster. Never rejects. */
  takeOver(
    wanted: Wanted & { readonly gone: string },
  ): Promise<'here' | 'busy' | 'stale_attempt' | ResumeRefusal | Refusal>;
  /** The session may be here in a moment, or at another node. */
  isUnderWay(sessionId: string): boolean;
  /** Whether a kept reply waits for the client of its requester. @throws {ProtocolError} as the engine. */
  isAwaited(source: ReplySource, id: string): Promise<boolean>;
  /** Other nodes take the sessions of this one. */
  handleCutOff(): void;
}

export const RECORDED = new Port<RecordedSessions>('recorded');

/** In the record, in place of the node that has the session: any node may take it. No incarnation is like this. */
export const NO_NODE = '-';
/** To a client: its session goes on, and another connection may resume it. */
export const SERVICE_RESTART = 1012;
/** A record lasts longer than a client may be away. */
const MARGIN_MS = 60_000;
/** The longest time that Redis accepts for certain. */
const MAX_MS = 30 * 24 * 3_600_000;

/** How long the record of a session lasts without a word of its node, in milliseconds. */
export const recordMsOf = ({ resumeWindowMs }: Pick<Timers, 'resumeWindowMs'>): number =>
  Math.min(resumeWindowMs + MARGIN_MS, MAX_MS);

/**
 * Ends a durable session that another node has claimed. If its client is connected here, it has come after the claim, or before
 * the claim was executed, and has to come again.
 */
export function dropFenced(session: ServerEndpoint, logger: Logger): void {
  logger.warn({ event: 'session.fenced', session: session.id }, 'another node has the session; it ends here');
  session.isElsewhere = true;
  session.loseWire(SERVICE_RESTART, 'another node has the session');
  session.abort(fencedError());
}
