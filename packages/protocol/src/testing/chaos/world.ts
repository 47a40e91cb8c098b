import { Extension, Subprotocol } from '../../base/constants.js';
import { resolveLimits, resolveTimers } from '../../base/limits.js';
import type { SessionOptions } from '../../session/types.js';
import { TEST_CAPABILITIES } from '../simulation.js';
import type { Ledger } from './ledger.js';
import type { Network } from './network.js';
import type { Random } from './random.js';
import type { Tally } from './tally.js';

/** What everybody in a history shares. */
export interface World {
  readonly random: Random;
  readonly network: Network;
  readonly ledger: Ledger;
  readonly tally: Tally;
  /** The next number of a body. */
  readonly nextNumber: () => number;
  /** Charges of what waits to be read at one end of a session. */
  readonly onUnread: (charge: number) => void;
}

const KIB = 1024;

/** Small windows, so that senders wait for credit all the time. */
export const LIMITS = resolveLimits({
  sessionWindow: 128 * KIB,
  streamWindow: 32 * KIB,
  maxStreams: 32,
  maxMessageSize: 64 * KIB,
});

/** What waits unread of one session and direction, as PROTOCOL.md states it. */
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

/** Half of the session window over all streams, as the options of client and server state it. */
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
