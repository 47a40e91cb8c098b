import { type Logger, ProtocolError, type Session } from '@parlance/protocol';
import { loggable } from '@parlance/protocol/internal';
import type { ServerEndpoint } from './endpoint.js';

/** Runs the application's `onSession` after the handshake's own events, and closes the session if it fails. */
export async function runOnSession(
  session: ServerEndpoint,
  onSession: (session: Session) => void | Promise<void>,
  logger: Logger,
): Promise<void> {
  await undefined;
  try {
    await onSession(session.session);
  } catch (error) {
    // A reader that throws because its session has ended is not at fault.
    if (session.state === 'closed') return;
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
