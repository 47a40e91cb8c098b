import type { ErrorCode, ErrorSide, Rejection } from '@parlance/protocol';
import { ProtocolError, RequestError } from '@parlance/protocol/client';

/** An error as it crosses to another thread: structured clone keeps neither the class nor the fields of one. */
export interface PackedError {
  readonly code: string;
  readonly message: string;
  /** The application's own error. */
  readonly isRequestError: boolean;
  readonly side: ErrorSide;
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;
  readonly closeCode: number;
  readonly reject: Rejection | undefined;
  readonly data: unknown;
}

/** @param error anything but an error of Parlance becomes `internal`, without its text. */
export function packError(error: unknown): PackedError {
  const own =
    error instanceof ProtocolError
      ? error
      : new ProtocolError('internal', 'the host of the shared session failed; see its log');
  const { code, message, side, retryable, retryAfterMs, closeCode, reject } = own;
  const isRequestError = own instanceof RequestError;
  const data = own instanceof RequestError ? own.data : undefined;
  return { code, message, isRequestError, side, retryable, retryAfterMs, closeCode, reject, data };
}

export function unpackError(packed: PackedError): ProtocolError {
  const { code, message, isRequestError, data, ...options } = packed;
  return isRequestError
    ? (new RequestError(code, message, { ...options, data }) as ProtocolError<string> as ProtocolError)
    : new ProtocolError(code as ErrorCode, message, options);
}
