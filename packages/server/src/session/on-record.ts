import type { Body, Logger, Message, Timers } from '@parlance/protocol';
import { fencedError } from '@parlance/protocol/internal';
import type { ServerEndpoint } from '../endpoint.js';

/** What both nodes and the part that keeps records know of a session on record. */

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
 * Ends a session on record that another node has claimed. If its client is connected here, it has come after the claim, or before
 * the claim was executed, and has to come again.
 */
export function dropFenced(session: ServerEndpoint, logger: Logger): void {
  logger.warn({ event: 'session.fenced', session: session.id }, 'another node has the session; it ends here');
  session.isElsewhere = true;
  session.loseWire(SERVICE_RESTART, 'another node has the session');
  session.abort(fencedError());
}

/** What a session does for its record, if it is on record. */
export interface OnRecord {
  /** Something may have happened that goes on record. */
  wake(): void;
  /** Writes also what is not needed any more. */
  tidy(): void;
  /** The application has taken a message of the client. */
  handleTaken(number: number, message: Message): void;
  /** A message is not needed any more: the application is done with it, or it was for another session, which has it. */
  handleDone(number: number): void;
  hasHandled(number: number): boolean;
  /** @throws {ProtocolError} `invalid_argument`. */
  handledUpTo(number: number): void;
  /**
   * @param state in UTF-8.
   * @param onDone nothing can prevent any more that all of it is recorded.
   * @throws {ProtocolError} `over_budget` if the record would become too large; as `Channel.send`, and what coding a body throws.
   */
  commit(state: Uint8Array | undefined, bodies: readonly Body[], onDone: () => void): Promise<void>;
  /** What a part keeps with the session; `undefined` is nothing. @throws {ProtocolError} `over_budget`; what MessagePack cannot say. */
  save(part: string, value: unknown): void;
  /** Resolves when everything so far is on record; rejects if the session ends before. */
  recorded(): Promise<void>;
  /** Another node may go on with the session. Nothing is written any more, nor is the record forgotten at the end. */
  leave(): void;
  /** The session is over here. */
  end(error: Error | undefined): void;
}

/** The state of a session on record: the JSON of its `data`, in UTF-8; empty for none. */
export const stateOf = (dataText: string | undefined): Uint8Array => new TextEncoder().encode(dataText ?? '');

export function dataTextOf(state: Uint8Array | undefined): string | undefined {
  return state === undefined || state.length === 0 ? undefined : new TextDecoder().decode(state);
}
