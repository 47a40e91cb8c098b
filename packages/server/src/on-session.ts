import { type Logger, ProtocolError } from '@parlance/protocol';
import { guardLater, loggable } from '@parlance/protocol/internal';
import type { ServerEndpoint } from './endpoint.js';
import type { ServerSession } from './served-session.js';

/** Calls `onSession`, for the first time or again, and keeps {@link ServerEndpoint.running}. */
export function startOnSession(
  session: ServerEndpoint,
  onSession: (session: ServerSession) => void | Promise<void>,
  logger: Logger,
): void {
  if (session.isStopped) session.startReading();
  const running = runOnSession(session, onSession, logger).finally(() => {
    session.running = undefined;
    session.onChange?.();
  });
  session.running = running;
  guardLater(session, running);
}

/** Runs the application's `onSession` after the handshake's own events, and closes the session if it fails. */
async function runOnSession(
  session: ServerEndpoint,
  onSession: (session: ServerSession) => void | Promise<void>,
  logger: Logger,
): Promise<void> {
  await undefined;
  try {
    await onSession(session.session);
  } catch (error) {
    // A reader that throws because its session has ended is not at fault.
    if (session.state === 'closed') return;
    // So does one that has heeded the signal.
    if (session.isStopped && isAbort(error, session.signal)) return;
    const fields = { event: 'session.failed', session: session.id, err: loggable(error) };
    // Its sender is to blame for a message that cannot be decoded.
    if (session.blames(error)) {
      logger.warn(fields, 'a message cannot be decoded, the session is closed');
      return session.abort(error);
    }
    logger.error(fields, 'onSession failed, the session is closed');
    session.abort(new ProtocolError('internal', 'the server failed', { cause: error }));
  }
}

function isAbort(error: unknown, { reason }: AbortSignal): boolean {
  return error === reason || (error instanceof Error && error.name === 'AbortError');
}
