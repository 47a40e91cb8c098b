import { isProtocolError } from '@parlance/protocol/client';

/** The codes with which calls fail if the connection of their session is gone, and no other session follows by itself. */
const DISCONNECTED: ReadonlySet<string> = new Set(['session_lost', 'connection_failed']);

/**
 * A lost connection as the AI SDK knows it: it takes a `TypeError` whose message has the word "network" for a disconnect. Then
 * `useChat` with `resume` looks for the answer when its page is visible again, and `onFinish` gets `isDisconnect: true`.
 * `cause` is the error of the session, and `code`, `retryable` and `retryAfterMs` are those of the cause.
 */
export class ChatDisconnectedError extends TypeError {
  readonly code: string;
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;

  constructor(cause: Error & { code: string; retryable: boolean; retryAfterMs: number | undefined }) {
    super(`network: ${cause.message}`, { cause });
    this.name = 'ChatDisconnectedError';
    this.code = cause.code;
    this.retryable = cause.retryable;
    this.retryAfterMs = cause.retryAfterMs;
  }
}

/** The error as the AI SDK should get it, if it says that the connection is gone; any other as it is. */
export function disconnectOf(error: unknown): unknown {
  return isProtocolError(error) && DISCONNECTED.has(error.code) ? new ChatDisconnectedError(error) : error;
}
