import { Extension, Subprotocol } from '../../base/constants.js';
import { resolveLimits, resolveTimers } from '../../base/limits.js';
import type { SessionOptions } from '../../session/types.js';
import { TEST_CAPABILITIES } from '../simulation.js';
import type { Ledger } from './ledger.js';
import type { Network } from './network.js';
import type { Random } from './random.js';
import type { Tally } from './tally.js';

/** Shared by all participants of a history. */
export interface World {
  readonly random: Random;
  readonly network: Network;
  readonly ledger: Ledger;
  readonly tally: Tally;
  /** Returns the next body number. */
  readonly nextNumber: () => number;
  /** Called with the sum of unread charges at one end of a session. */
  readonly onUnread: (charge: number) => void;
}

const KIB = 1024;

/** Small windows, so that senders often wait for credit. */
export const LIMITS = resolveLimits({
  sessionWindow: 128 * KIB,
  streamWindow: 32 * KIB,
  maxStreams: 32,
  maxMessageSize: 64 * KIB,
});

/** Bound for the unread bytes of one direction of a session, as docs/protocol/credit.md states it. */
export const MAX_UNREAD = LIMITS.sessionWindow + 2 * LIMITS.maxMessageSize;

export const TIMERS = resolveTimers(
  {
    acceptTimeoutMs: 3_000,
    pingIntervalMs: 2_000,
    pongTimeoutMs: 700,
    closingTimeoutMs: 4_000,
    resumeWindowMs: 10_000,
  },
  true,
);

/** All streams together get half of the session window, as in the options of client and server. */
const LINK = { message_window: 32 * KIB, stream_window: 2 * KIB, max_streams: LIMITS.maxStreams };

export const SESSION: Omit<SessionOptions, 'role'> = {
  subprotocol: Subprotocol.BINARY,
  capabilities: {
    ...TEST_CAPABILITIES,
    extensions: { [Extension.LINK]: JSON.stringify(LINK), [Extension.RESUME]: '{}' },
  },
  limits: LIMITS,
  timers: TIMERS,
};
