import { DEFAULT_LIMITS } from '../../base/limits.js';
import type { Session } from '../session.js';

/** Bytes of a message that both ends of a session take, as far as they have said; 16 MiB is the default of the limit. */
export function messageLimitOf({
  negotiated: { limits, maxPayloadSize },
}: Pick<Session, 'negotiated'>): number {
  return Math.min(limits['maxMessageSize'] ?? DEFAULT_LIMITS.maxMessageSize, maxPayloadSize || Infinity);
}
