import { Extension } from '../base/constants.js';
import { resolveLimits, resolveTimers } from '../base/limits.js';
import type { SessionOptions } from '../session/types.js';
import { TEST_CAPABILITIES } from './simulation.js';

/** Small windows, little context and few streams, so that a history soon meets their bounds. */
export const MOVE_OPTIONS: Omit<SessionOptions, 'role' | 'subprotocol'> = {
  capabilities: {
    ...TEST_CAPABILITIES,
    extensions: {
      [Extension.LINK]: JSON.stringify({ message_window: 3_000, stream_window: 1_500, max_streams: 6 }),
      [Extension.RESUME]: '{}',
      [Extension.REBUILD]: '1',
      [Extension.MOVE]: '1',
      [Extension.CONTEXT]: '{"max_bytes":5000,"max_messages":3}',
      [Extension.AGENTS]: '{}',
    },
  },
  limits: resolveLimits({ sessionWindow: 20_000, streamWindow: 4_000, maxMessageSize: 10_000 }),
  timers: resolveTimers({ resumeWindowMs: 60_000 }),
};
