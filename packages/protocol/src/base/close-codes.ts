/**
 * Every WebSocket close code that Parlance sends, and whether a client may reconnect after it. Close reasons
 * are cut to 123 bytes (RFC 6455, section 5.5.1).
 */

interface CloseCodeEntry {
  readonly code: number;
  /** Whether a new connection may succeed although nothing has changed. */
  readonly retryable: boolean;
  readonly meaning: string;
}

const TABLE = {
  NORMAL: { code: 1000, retryable: false, meaning: 'the session ended as agreed' },
  GOING_AWAY: { code: 1001, retryable: true, meaning: 'the page or the server goes away' },
  PROTOCOL_ERROR: { code: 1002, retryable: false, meaning: 'the WebSocket itself was misused' },
  ABNORMAL: { code: 1006, retryable: true, meaning: 'the connection was lost (never sent)' },
  INVALID_TEXT: { code: 1007, retryable: false, meaning: 'a text message was not UTF-8' },
  FRAGMENTED: { code: 1008, retryable: false, meaning: 'a message came in too many fragments' },
  MESSAGE_TOO_BIG: {
    code: 1009,
    retryable: false,
    meaning: "a WebSocket message was over the receiver's limit",
  },
  BAD_FRAME: { code: 4400, retryable: false, meaning: 'a frame or message violated the protocol' },
  UNAUTHENTICATED: { code: 4401, retryable: false, meaning: 'credentials missing, wrong or expired' },
  FORBIDDEN: { code: 4403, retryable: false, meaning: 'this origin or principal is not allowed' },
  TIMEOUT: { code: 4408, retryable: true, meaning: 'the peer did not answer in time' },
  TAKEN_OVER: { code: 4409, retryable: false, meaning: 'a newer connection carries the session' },
  STALE_ATTEMPT: { code: 4410, retryable: false, meaning: 'a newer resume attempt was accepted' },
  TOO_LARGE: { code: 4413, retryable: false, meaning: 'a message was over a limit' },
  RATE_LIMITED: { code: 4429, retryable: true, meaning: 'too much in too short a time' },
  INTERNAL: { code: 4500, retryable: true, meaning: 'a fault on the side that closes' },
  DRAINING: { code: 4503, retryable: true, meaning: 'the server is full or shuts down' },
} as const satisfies Record<string, CloseCodeEntry>;

export type CloseCodeName = keyof typeof TABLE;

/** Close codes by name, for example `CloseCode.BAD_FRAME === 4400`. */
export const CloseCode = Object.fromEntries(
  Object.entries(TABLE).map(([name, entry]) => [name, entry.code]),
) as { readonly [N in CloseCodeName]: (typeof TABLE)[N]['code'] };
export type CloseCode = (typeof CloseCode)[CloseCodeName];

/** All rows, in ascending order, for documentation and for tools that explain a code. */
export const CLOSE_CODES: readonly (CloseCodeEntry & { readonly name: CloseCodeName })[] = (
  Object.keys(TABLE) as CloseCodeName[]
).map((name) => ({ name, ...TABLE[name] }));

const BY_CODE = new Map(CLOSE_CODES.map((entry) => [entry.code, entry]));

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
