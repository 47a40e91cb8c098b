/**
 * Every WebSocket close code that Parlance sends, and whether a client may reconnect after it. Close reasons
 * are cut to 123 bytes (RFC 6455, section 5.5.1).
 */

interface CloseCodeEntry {
  readonly code: number;
  /** Whether a new connection may succeed although nothing has changed. */
  readonly retryable: boolean;
}

const TABLE = {
  NORMAL: { code: 1000, retryable: false },
  GOING_AWAY: { code: 1001, retryable: true },
  PROTOCOL_ERROR: { code: 1002, retryable: false },
  ABNORMAL: { code: 1006, retryable: true },
  INVALID_TEXT: { code: 1007, retryable: false },
  FRAGMENTED: { code: 1008, retryable: false },
  MESSAGE_TOO_BIG: { code: 1009, retryable: false },
  BAD_FRAME: { code: 4400, retryable: false },
  UNAUTHENTICATED: { code: 4401, retryable: false },
  FORBIDDEN: { code: 4403, retryable: false },
  TIMEOUT: { code: 4408, retryable: true },
  TAKEN_OVER: { code: 4409, retryable: false },
  STALE_ATTEMPT: { code: 4410, retryable: false },
  DETACHED: { code: 4411, retryable: false },
  TOO_LARGE: { code: 4413, retryable: false },
  RATE_LIMITED: { code: 4429, retryable: true },
  INTERNAL: { code: 4500, retryable: true },
  DRAINING: { code: 4503, retryable: true },
} as const satisfies Record<string, CloseCodeEntry>;

export type CloseCodeName = keyof typeof TABLE;

/** Close codes by name, for example `CloseCode.BAD_FRAME === 4400`. */
export const CloseCode = Object.fromEntries(
  Object.entries(TABLE).map(([name, entry]) => [name, entry.code]),
) as { readonly [N in CloseCodeName]: (typeof TABLE)[N]['code'] };
export type CloseCode = (typeof CloseCode)[CloseCodeName];

const BY_CODE: ReadonlyMap<number, CloseCodeEntry> = new Map(
  Object.values(TABLE).map((entry) => [entry.code, entry]),
);

/**
 * Whether `code` only means that the connection was lost, so that the session may resume. Of Parlance's own
 * codes that is just TIMEOUT, for a peer that stopped answering.
 */
export function isConnectionLoss(code: number): boolean {
  return code === CloseCode.TIMEOUT || (code < 4000 && isRetryableCloseCode(code));
}

/** Whether a client may reconnect after `code`; unknown codes from 4000 up are final. */
export function isRetryableCloseCode(code: number): boolean {
  const known = BY_CODE.get(code);
  if (known !== undefined) return known.retryable;
  // RFC 6455 codes that a proxy or a restarting server sends: 1012 service restart, 1013 try again
  // later, 1014 bad gateway, and 1005 for a connection that ended without a code.
  return code === 1005 || (code >= 1011 && code <= 1014);
}
