import type { WebSocketTransport } from './ws.js';

/** Pings in a row that a client may leave without an answer, as in a session. */
const MAX_MISSED = 3;

/**
 * Pings a WebSocket whose messages are not those of a session, so that proxies keep it, and cuts it if its client is gone.
 *
 * @returns ends that.
 */
export function keepAlive(wire: WebSocketTransport, intervalMs: number): () => void {
  const { hold, unhold } = wire;
  let holds = 0;
  let missed = 0;
  let received = -1;
  Object.assign(wire, {
    hold() {
      holds++;
      hold.call(wire);
    },
    unhold() {
      holds--;
      missed = 0;
      unhold.call(wire);
    },
  });
  const timer = setInterval(() => {
    const now = wire.traffic.received;
    // The answers of a client that is not read are not seen.
    missed = now > received || holds > 0 ? 0 : missed + 1;
    received = now;
    if (missed === MAX_MISSED) wire.terminate();
    else wire.ping();
  }, intervalMs);
  timer.unref();
  return () => clearInterval(timer);
}
