import { type Logger, ProtocolError } from '@parlance/protocol';
import { comesOfStopping, guard, loggable } from '@parlance/protocol/internal';
import type { ServerEndpoint } from './endpoint.js';
import type { ServerSession } from './served-session.js';

/**
 * Calls `onSession`, for the first time or again, after the handshake's own events, keeps {@link ServerEndpoint.running},
 * and closes the session if it fails. Two promises: an `async` function would keep half as much again for each session.
 */
export function startOnSession(
  session: ServerEndpoint,
  onSession: (session: ServerSession) => void | Promise<void>,
  logger: Logger,
): void {
  if (session.isStopped) session.startReading();
  session.running = READY.then(() => seen(onSession(session.session))).then(
    () => handleReturn(session),
    (error: unknown) => {
      guard(session, () => endAfter(error, session, logger));
      handleReturn(session);
    },
  );
}

const READY = Promise.resolve();

/** A promise with a `then` of its own may hide that it is rejected, which would end the process; `await` does not call it. */
function seen(returned: void | Promise<void>): void | Promise<void> {
  return returned instanceof Promise && Object.hasOwn(returned, 'then') ? settled(returned) : returned;
}

async function settled(promise: Promise<void>): Promise<void> {
  await promise;
}

function handleReturn(session: ServerEndpoint): void {
  session.running = undefined;
  guard(session, () => session.onChange?.());
}

function endAfter(error: unknown, session: ServerEndpoint, logger: Logger): void {
  const { state, isStopped } = session;
  const isLeaving = state === 'closing' || state === 'closed';
  // A reader is not at fault that throws because its session ends, or because it has heeded the signal.
  if ((isLeaving || isStopped) && comesOfStopping(error)) return;
  const fields = { event: 'session.failed', session: session.id, err: loggable(error) };
  // Its sender is to blame for a message that cannot be decoded.
  if (session.blames(error)) {
    logger.warn(fields, 'a message cannot be decoded, the session is closed');
    return session.abort(error);
  }
  logger.error(
    fields,
    isLeaving ? 'onSession failed as its session ended' : 'onSession failed, the session is closed',
  );
  if (!isLeaving) session.abort(new ProtocolError('internal', 'the server failed', { cause: error }));
}
