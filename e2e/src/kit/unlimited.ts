import type { Limits } from '@parlance/server';

/** Lets one address open as many sessions as a test likes, and send as fast as it can. */
export const UNLIMITED: Partial<Limits> = {
  messagesPerMinute: Infinity,
  bytesPerSecond: Infinity,
  sessionsPerMinutePerIp: Infinity,
  connectionsPerMinutePerIp: Infinity,
  failuresPerMinutePerIp: Infinity,
  handshakesPerIp: Infinity,
  sessionsPerIp: Infinity,
  sessionsPerPrincipal: Infinity,
};
