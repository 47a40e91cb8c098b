/** Limits that let a bench run at any rate, over any number of connections of one address. */
export const UNLIMITED = {
  messagesPerMinute: Infinity,
  bytesPerSecond: Infinity,
  sessionsPerIp: Infinity,
  sessionsPerMinutePerIp: Infinity,
  connectionsPerMinutePerIp: Infinity,
  failuresPerMinutePerIp: Infinity,
  handshakesPerIp: Infinity,
};
