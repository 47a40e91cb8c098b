import { complete } from '#sentences';
import { CloseCode } from './close-codes.js';

/**
 * One error class for all of Parlance. `code` says what went wrong, as a union to switch over; `side` says
 * which end reported it; the table below holds the close code that the peer sees if the error ends a session.
 */

interface ErrorEntry {
  /** The WebSocket close code when this error ends the session or the handshake. */
  readonly closeCode: CloseCode;
  /** Whether the same call may succeed later, unchanged. */
  readonly retryable: boolean;
}

const BAD = { closeCode: CloseCode.BAD_FRAME, retryable: false } as const;
const LARGE = { closeCode: CloseCode.TOO_LARGE, retryable: false } as const;
/** Errors of a call; they never close a session. */
const CALL = { closeCode: CloseCode.NORMAL, retryable: false } as const;

const ERRORS = {
  // Malformed input.
  bad_frame: BAD,
  bad_message: BAD,
  protocol_violation: BAD,
  truncated: BAD,
  trailing_bytes: BAD,
  bad_varint: BAD,
  bad_utf8: BAD,
  bad_base64: BAD,
  bad_json: BAD,
  bad_compression: BAD,
  bad_header: BAD,
  bad_tensor: BAD,
  bad_token: BAD,
  bad_checksum: BAD,
  bad_acceptance: BAD,
  unknown_prefix: BAD,
  unknown_schema: BAD,
  unknown_security_mode: BAD,
  unknown_version: BAD,
  security_required: BAD,
  authentication_failed: BAD,

  // Exceeded limits.
  message_too_large: LARGE,
  transfer_too_large: LARGE,
  decompressed_too_large: LARGE,
  json_too_deep: LARGE,
  string_too_long: LARGE,
  array_too_long: LARGE,
  too_many_values: LARGE,
  metadata_too_large: LARGE,
  window_exceeded: LARGE,
  /** All memory that this end allows its peer is in use. */
  over_budget: { closeCode: CloseCode.TOO_LARGE, retryable: true },
  too_many_streams: { closeCode: CloseCode.BAD_FRAME, retryable: true },
  rate_limited: { closeCode: CloseCode.RATE_LIMITED, retryable: true },

  // The session and its connection.
  rejected: { closeCode: CloseCode.BAD_FRAME, retryable: false },
  unauthenticated: { closeCode: CloseCode.UNAUTHENTICATED, retryable: false },
  forbidden: { closeCode: CloseCode.FORBIDDEN, retryable: false },
  timeout: { closeCode: CloseCode.TIMEOUT, retryable: true },
  taken_over: { closeCode: CloseCode.TAKEN_OVER, retryable: false },
  /** Another process has taken the session over, because this one did not answer. */
  fenced: { closeCode: CloseCode.ABNORMAL, retryable: true },
  stale_attempt: { closeCode: CloseCode.STALE_ATTEMPT, retryable: false },
  draining: { closeCode: CloseCode.DRAINING, retryable: true },
  internal: { closeCode: CloseCode.INTERNAL, retryable: false },
  connection_failed: { closeCode: CloseCode.ABNORMAL, retryable: true },
  session_lost: { closeCode: CloseCode.ABNORMAL, retryable: false },
  session_closed: CALL,

  // Calls that cannot be carried out.
  unsupported: CALL,
  unrepresentable: CALL,
  lone_surrogate: CALL,
  invalid_option: CALL,
  invalid_argument: CALL,
  invalid_key: CALL,
  codec_not_loaded: { closeCode: CloseCode.INTERNAL, retryable: true },
  vocabulary_not_loaded: { closeCode: CloseCode.INTERNAL, retryable: true },
  vocabulary_unavailable: CALL,
  vocabulary_mismatch: CALL,
  unknown_reply: CALL,
  /** A kept reply had to make room for others, or its time was over, while it was followed. */
  gone: CALL,
  too_many_replies: { closeCode: CloseCode.NORMAL, retryable: true },
  reply_too_large: CALL,
  unknown_agent: { closeCode: CloseCode.NORMAL, retryable: true },
  peer_gone: CALL,
  /** The page at the other end was loaded again, which ended all its streams; or the node that had a kept reply is gone. */
  interrupted: { closeCode: CloseCode.NORMAL, retryable: true },
  cancelled: CALL,
} as const satisfies Record<string, ErrorEntry>;

/**
 * Every code that a `ProtocolError` can carry. `unauthenticated` is about the credentials of a client. `authentication_failed` is about a
 * body that is not authentic under a key, and `bad_token` about a token ID that a vocabulary does not have: neither says who a client is.
 */
export type ErrorCode = keyof typeof ERRORS;

/** All error codes with their close codes, for documentation and tests. */
export const ERROR_CODES: Readonly<Record<ErrorCode, ErrorEntry>> = ERRORS;

/** `local`: this end refused or failed; `remote`: the peer reported the error. */
export type ErrorSide = 'local' | 'remote';

export interface ProtocolErrorOptions {
  /** @default 'local' */
  readonly side?: ErrorSide | undefined;
  readonly cause?: unknown;
  /** @default the table's value for the code */
  readonly retryable?: boolean | undefined;
  /** Milliseconds to wait before trying again, if the peer sent a figure. */
  readonly retryAfterMs?: number | undefined;
  /** The close code that was received or is to be sent. @default the table's value for the code */
  readonly closeCode?: number | undefined;
  /** The peer's REJECT; only with code `rejected`. */
  readonly reject?: Rejection | undefined;
}

/** The content of a REJECT message. */
export interface Rejection {
  readonly code: string;
  readonly message: string;
}

/**
 * Any failure that Parlance reports. An error of another library is its `cause`.
 *
 * @typeParam Code the possible codes; a {@link RequestError} carries the application's own.
 */
export interface ProtocolError<Code extends string = ErrorCode> extends Error {
  readonly code: Code;
  readonly side: ErrorSide;
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;
  readonly closeCode: number;
  readonly reject: Rejection | undefined;
}

/** `instanceof` makes the parameters of a generic class `any`, unless the type of its prototype is stated. */
export interface ProtocolErrorConstructor {
  readonly prototype: ProtocolError;
  new <Code extends string = ErrorCode>(
    code: Code,
    message: string,
    options?: ProtocolErrorOptions,
  ): ProtocolError<Code>;
}

export const ProtocolError: ProtocolErrorConstructor = class ProtocolError<
  Code extends string,
> extends Error {
  readonly code: Code;
  readonly side: ErrorSide;
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;
  readonly closeCode: number;
  readonly reject: Rejection | undefined;

  constructor(code: Code, message: string, options: ProtocolErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'ProtocolError';
    const entry: ErrorEntry = Object.hasOwn(ERRORS, code) ? ERRORS[code as ErrorCode] : CALL;
    this.code = code;
    this.side = options.side ?? 'local';
    this.retryable = options.retryable ?? entry.retryable;
    this.retryAfterMs = options.retryAfterMs;
    this.closeCode = options.closeCode ?? entry.closeCode;
    this.reject = options.reject;
    complete(this, message);
  }
};

export interface RequestErrorOptions extends ProtocolErrorOptions {
  /** Any JSON value of up to 8 KiB, handed to the requester unchanged. Anything else is left out, and the log says so (`request.data_dropped`). */
  readonly data?: unknown;
}

/** Without the prototype, so that the codes of a subclass may be others. */
const AnyProtocolError: new <Code extends string>(
  code: Code,
  message: string,
  options?: ProtocolErrorOptions,
) => ProtocolError<Code> = ProtocolError;

/**
 * An application's own failure of one request: a handler throws it, and the requester's call throws it again
 * with the same code, message and data. Any other error that a handler throws reaches the requester as
 * `internal`, without details.
 */
export class RequestError extends AnyProtocolError<string> {
  readonly data: unknown;

  /**
   * @param code 1 to 64 characters of `a-z`, `0-9` and `_`.
   * @throws {ProtocolError} `invalid_argument` for any other code.
   */
  constructor(code: string, message: string, options: RequestErrorOptions = {}) {
    if (!isApplicationCode(code)) {
      throw new ProtocolError(
        'invalid_argument',
        `a request error's code must be 1 to 64 characters of a-z, 0-9 and _, not ${JSON.stringify(code)}`,
      );
    }
    super(code, message, options);
    this.name = 'RequestError';
    this.data = options.data;
  }
}

/** Whether an application may use `code` for an error, or for the end of a session. */
export function isApplicationCode(code: string): boolean {
  return /^[a-z0-9_]{1,64}$/.test(code);
}

/** Whether `value` is an error that Parlance itself threw. */
export function isProtocolError(value: unknown): value is ProtocolError | RequestError {
  return value instanceof ProtocolError;
}

/** Returns `value` if it is a Parlance error; otherwise a new error with `value` as its cause. */
export function toProtocolError(value: unknown, code: ErrorCode, message: string): ProtocolError {
  return isProtocolError(value)
    ? (value as ProtocolError)
    : new ProtocolError(code, message, { cause: value });
}
