import type { GoAwayPayload, SessionCore } from '@parlance/protocol';
import { CloseCode, ProtocolError } from '@parlance/protocol/client';

/**
 * How the end of a session is continued: `retry` a session that never began, `continue` after a session that
 * was left in order, so that nothing is missing, or `restart` after a lost one.
 */
export type Continuation = 'retry' | 'continue' | 'restart';

/** A session that ends, as its client sees it. */
export interface EndingSession {
  readonly core: Pick<SessionCore, 'closeStatement' | 'goAway' | 'negotiated' | 'retryAfterMs'>;
  /** Replies that were not complete. */
  readonly openReplies: number;
  /** The application has closed the session, so none follows. */
  readonly isCloseRequested: boolean;
  /** It is not the first session. */
  readonly isSuccessor: boolean;
  /** Either end closes it. */
  readonly isClosing: boolean;
  /** Lost sessions are replaced. */
  readonly isRenewed: boolean;
  /** An attempt to begin a session is made again after this error, which may pass. */
  readonly mayTryAgain: (error: ProtocolError) => boolean;
  /** The server has refused the credentials. Returns after how many milliseconds others are presented; `undefined` if never. */
  readonly onRefused: () => number | undefined;
}

/**
 * Decides what follows a session.
 *
 * @param given why it has ended; `undefined` after an orderly close.
 * @returns with which error it ends, and after which delay the next one begins.
 */
export function continuationOf(
  given: ProtocolError | undefined,
  session: EndingSession,
): { error: ProtocolError | undefined; continuation: Continuation | undefined; retryAfterMs: number } {
  const { core, isCloseRequested, isRenewed } = session;
  // Closing a session that has not begun yet is an end in order if it would have followed another one.
  const isOrderly = isCloseRequested && session.isSuccessor && given?.code === 'session_closed';
  const reason = isOrderly ? undefined : given;
  const { side, code } = core.closeStatement;
  // A server that drains wants its clients back, but not one that its application has sent away.
  const isFinal = isCloseRequested || (side === 'remote' && code !== undefined);
  const goAway = isFinal ? undefined : core.goAway;
  const isBorn = core.negotiated !== undefined;
  const isRefused = reason?.closeCode === CloseCode.UNAUTHENTICATED && reason.side === 'remote';
  const mayAsk = isRefused && isRenewed && !isFinal && !session.isClosing;
  const refusedMs = mayAsk ? session.onRefused() : undefined;
  const lost = isBorn && refusedMs !== undefined ? credentialsLost(reason) : reason;
  const error = goAway === undefined ? lost : lossOf(goAway, lost, session.openReplies);
  const mayTryAgain = refusedMs !== undefined || (error?.retryable === true && session.mayTryAgain(error));
  const isLost = error?.code === 'session_lost' && (!session.isClosing || goAway !== undefined);
  let continuation: Continuation | undefined;
  if (!isRenewed) continuation = undefined;
  else if (!isBorn && mayTryAgain) continuation = 'retry';
  else if (goAway !== undefined && error === undefined) continuation = 'continue';
  else if (isLost) continuation = 'restart';
  const askedMs = Math.max(error?.retryAfterMs ?? goAway?.retryAfterMs ?? 0, core.retryAfterMs);
  return { error, continuation, retryAfterMs: refusedMs ?? askedMs };
}

/** The server has ended a session whose client can present other credentials in the next one. */
function credentialsLost(cause: ProtocolError | undefined): ProtocolError {
  const message = `the server accepts the credentials no more: ${cause?.message}`;
  return new ProtocolError('session_lost', message, { side: 'remote', cause });
}

/**
 * The error of a session whose server has drained; `undefined` if nothing was lost with it.
 *
 * @param error why it ended; `undefined` after an orderly close.
 * @param openReplies the number of replies that were not complete.
 */
function lossOf(
  { retryAfterMs }: GoAwayPayload,
  error: ProtocolError | undefined,
  openReplies: number,
): ProtocolError | undefined {
  const options = { side: 'remote', retryAfterMs, cause: error } as const;
  if (error === undefined) {
    if (openReplies === 0) return undefined;
    const message = `the server was shut down; replies that were not complete: ${openReplies}`;
    return new ProtocolError('session_lost', message, options);
  }
  if (!error.retryable || error.code === 'session_lost') return error;
  return new ProtocolError('session_lost', `the server was shut down: ${error.message}`, options);
}
