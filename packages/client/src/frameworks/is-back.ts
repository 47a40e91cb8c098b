import { isProtocolError, type Session } from '../index.js';

/**
 * Whether a call that failed with `error` may be made again, in the session that follows the one that was lost. Waits
 * for that session.
 */
export async function isBack(session: Pick<Session, 'state' | 'on'>, error: unknown): Promise<boolean> {
  if (!isProtocolError(error) || (error.code !== 'session_lost' && error.code !== 'session_closed'))
    return false;
  // The session has not changed its state yet when its calls fail.
  await new Promise((resolve) => setTimeout(resolve));
  return await isThere(session);
}

/** Waits while the session has no connection. @returns whether it has one then, or is closed. */
export async function isThere(session: Pick<Session, 'state' | 'on'>): Promise<boolean> {
  return await new Promise((resolve) => {
    const look = (): void => {
      const { state } = session;
      if (state !== 'established' && state !== 'closed') return;
      stopListening();
      resolve(state === 'established');
    };
    const stopListening = session.on('state', look);
    look();
  });
}
