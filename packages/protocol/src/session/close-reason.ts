import { CloseCode, isRetryableCloseCode } from '../base/close-codes.js';
import { ProtocolError } from '../base/errors.js';
import { truncateUtf8 } from '../base/text.js';
import type { GoAwayPayload, RejectPayload } from '../control/messages.js';

/** Converts between errors and WebSocket close codes. */

/** Bytes that a WebSocket close frame leaves for its reason (RFC 6455, section 5.5). */
const MAX_REASON_BYTES = 123;

/** The error of a session whose connection was closed by the peer, or lost. */
export function disconnectError(closeCode: number, reason: string, isConnecting: boolean): ProtocolError {
  const message = `the connection closed with code ${closeCode}${reason === '' ? '' : `: ${reason}`}`;
  // A handshake may be retried for the close codes after which a client may reconnect.
  const retryable = isConnecting ? isRetryableCloseCode(closeCode) : undefined;
  const options = { side: 'remote', closeCode, retryable } as const;
  const code = CODES[closeCode] ?? (isConnecting ? 'connection_failed' : 'session_lost');
  return new ProtocolError(code, message, options);
}

/** The error code for a close code of the peer. After `taken_over`, reconnecting would only take the session back again. */
const CODES: Readonly<Record<number, ProtocolError['code']>> = {
  [CloseCode.UNAUTHENTICATED]: 'unauthenticated',
  [CloseCode.FORBIDDEN]: 'forbidden',
  [CloseCode.TIMEOUT]: 'timeout',
  [CloseCode.BAD_FRAME]: 'protocol_violation',
  [CloseCode.TOO_LARGE]: 'message_too_large',
  [CloseCode.TAKEN_OVER]: 'taken_over',
  [CloseCode.RATE_LIMITED]: 'rate_limited',
  [CloseCode.INTERNAL]: 'internal',
  [CloseCode.DRAINING]: 'draining',
};

/** Whether the client may try again follows from the close code, unless the server says it. */
export function rejectOf(refusal: RejectPayload, closeCode: CloseCode): RejectPayload {
  return { ...refusal, retryable: refusal.retryable ?? isRetryableCloseCode(closeCode) };
}

/** The error of a session that was rejected, at either end. */
export function rejection(
  reject: RejectPayload,
  options: { readonly side?: 'remote'; readonly closeCode: number; readonly retryable?: boolean },
): ProtocolError {
  const { code, message, retryable, retryAfterMs } = reject;
  return new ProtocolError('rejected', message, {
    retryable,
    ...options,
    retryAfterMs,
    reject: { code, message },
  });
}

/** The error of a request that is sent in spite of GOAWAY, at either end. */
export function drainingError({ retryAfterMs }: Pick<GoAwayPayload, 'retryAfterMs'>): ProtocolError {
  return new ProtocolError('draining', 'the server drains and takes no new requests', { retryAfterMs });
}

/** The error, with `closeCode` if its own code does not report a failure. */
export function withCloseCode(error: ProtocolError, closeCode: CloseCode): ProtocolError {
  // 1000 is for a session that ended as agreed, and 1006 cannot be sent.
  if (error.closeCode !== CloseCode.NORMAL && error.closeCode !== CloseCode.ABNORMAL) return error;
  const { code, message, side, retryable, retryAfterMs } = error;
  return new ProtocolError(code, message, { side, retryable, retryAfterMs, closeCode, cause: error });
}

/** The reason of a close frame: the code, then as much of the message as 123 bytes hold. */
export function closeReasonOf(error: ProtocolError): string {
  return truncateReason(`${error.code}: ${error.message}`);
}

/** Cuts a text to what a close frame holds. */
export function truncateReason(text: string): string {
  return truncateUtf8(text, MAX_REASON_BYTES);
}
