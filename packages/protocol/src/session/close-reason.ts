import { CloseCode, isRetryableCloseCode } from '../base/close-codes.js';
import { ProtocolError } from '../base/errors.js';
import { truncateUtf8 } from '../base/text.js';
import type { RejectPayload } from '../control/messages.js';

/** Between errors and WebSocket close codes, in both directions. */

/** Bytes that a WebSocket close frame leaves for its reason (RFC 6455, section 5.5). */
const MAX_REASON_BYTES = 123;

/** The error behind a connection that ended while the session still lived. */
export function disconnectError(closeCode: number, reason: string, isConnecting: boolean): ProtocolError {
  const told = `the connection closed with code ${closeCode}${reason === '' ? '' : `: ${reason}`}`;
  // A handshake may be tried again exactly where a client may come back.
  const retryable = isConnecting ? isRetryableCloseCode(closeCode) : undefined;
  const options = { side: 'remote', closeCode, retryable } as const;
  switch (closeCode) {
    case CloseCode.UNAUTHENTICATED:
      return new ProtocolError('unauthenticated', told, options);
    case CloseCode.FORBIDDEN:
      return new ProtocolError('forbidden', told, options);
    case CloseCode.TIMEOUT:
      return new ProtocolError('timeout', told, options);
    case CloseCode.BAD_FRAME:
      return new ProtocolError('protocol_violation', told, options);
    case CloseCode.TOO_LARGE:
      return new ProtocolError('message_too_large', told, options);
    case CloseCode.TAKEN_OVER:
      // Coming back would only take it over in turn.
      return new ProtocolError('taken_over', told, options);
    case CloseCode.RATE_LIMITED:
      return new ProtocolError('rate_limited', told, options);
    case CloseCode.INTERNAL:
      return new ProtocolError('internal', told, options);
    case CloseCode.DRAINING:
      return new ProtocolError('draining', told, options);
    default: {
      return new ProtocolError(isConnecting ? 'connection_failed' : 'session_lost', told, options);
    }
  }
}

/** The error of an end that was refused, at either side. */
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

/** The reason of a close frame: the code, then as much of the message as 123 bytes hold. */
export function closeReasonOf(error: ProtocolError): string {
  return truncateReason(`${error.code}: ${error.message}`);
}

/** As much of a text as a close frame holds. */
export function truncateReason(text: string): string {
  return truncateUtf8(text, MAX_REASON_BYTES);
}
