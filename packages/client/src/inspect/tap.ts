import { notify } from '@parlance/protocol/client';
import { createRecorder, type InspectionEvent, type RecorderOptions } from '@parlance/protocol/inspect';
import type { WebSocketConstructor } from '../connection/web-socket.js';
import { createFaultPrinter, watchSockets } from './socket.js';

/**
 * Records what travels over the connections of one session: a class for the option `WebSocket` of `connect` that gives
 * an event of schema version 1 to `sink` for each frame, connection, change of the session, and resume, over HTTP as well. Credentials
 * are masked; content is not. Without this class nothing is recorded.
 *
 * Each frame is explained when it passes, which takes some 50 µs.
 *
 * @param WebSocket the class to extend: the global one, or that of `ws`.
 * @param sink gets each event; what it throws is printed and does not touch the session.
 * @throws {ProtocolError} `invalid_option` if a limit is invalid.
 */
export function tap(
  WebSocket: WebSocketConstructor,
  sink: (event: InspectionEvent) => void,
  options: RecorderOptions = {},
): WebSocketConstructor {
  const recorder = createRecorder(options);
  const onThrown = createFaultPrinter();
  const pass = (events: readonly InspectionEvent[]) => {
    for (const event of events) notify(() => sink(event), onThrown);
  };
  return watchSockets(WebSocket, {
    onOpening: (connection, url) => pass(recorder.opening(now(), connection, url)),
    onOpen: (connection) => pass(recorder.open(now(), connection)),
    onFrame: (connection, direction, frame) => pass(recorder.frame(now(), connection, direction, frame)),
    onClosed: (connection, code, reason) => pass(recorder.closed(now(), connection, code, reason)),
  });
}

/** Unix milliseconds that never run backwards. */
function now(): number {
  return performance.timeOrigin + performance.now();
}
