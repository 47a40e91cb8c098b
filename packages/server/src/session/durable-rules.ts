import type { Logger, Timers } from '@parlance/protocol';
import { fencedError } from '@parlance/protocol/internal';
import type { ServerEndpoint } from './endpoint.js';

/** Rules for recorded sessions that both nodes and the feature that keeps records need. */

/** In the record, in place of the node that has the session: any node may take it. No incarnation is like this. */
export const NO_NODE = '-';
/** To a client: its session continues, and another connection may resume it. */
export const SERVICE_RESTART = 1012;
/** A record lasts longer than a client may be away. */
const MARGIN_MS = 60_000;
/** The longest time that Redis accepts for certain. */
const MAX_MS = 30 * 24 * 3_600_000;

/** How long the record of a session lasts without a word of its node, in milliseconds. */
export const retentionMsOf = ({ resumeWindowMs }: Pick<Timers, 'resumeWindowMs'>): number =>
  Math.min(resumeWindowMs + MARGIN_MS, MAX_MS);

/**
 * Ends a recorded session that another node has claimed. If its client is connected here, it has come after the claim,
 * or before the claim was executed, and has to come again.
 */
export function dropFenced(session: ServerEndpoint, logger: Logger): void {
  logger.warn({ event: 'session.fenced', session: session.id }, 'another node has the session; it ends here');
  session.isElsewhere = true;
  session.loseWire(SERVICE_RESTART, 'another node has the session');
  session.abort(fencedError());
}
