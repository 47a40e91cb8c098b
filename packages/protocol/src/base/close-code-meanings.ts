import { CloseCode, type CloseCodeName, isRetryableCloseCode } from './close-codes.js';

/** The meanings of close codes, for people; sessions do not need them. */

const MEANINGS: Readonly<Record<CloseCodeName, string>> = {
  NORMAL: 'the session ended as agreed',
  GOING_AWAY: 'the page or the server goes away',
  PROTOCOL_ERROR: 'the WebSocket itself was misused',
  ABNORMAL: 'the connection was lost (never sent)',
  INVALID_TEXT: 'a text message was not UTF-8',
  FRAGMENTED: 'a message came in too many fragments',
  MESSAGE_TOO_BIG: "a WebSocket message was over the receiver's limit",
  BAD_FRAME: 'a frame or message violated the protocol',
  UNAUTHENTICATED: 'credentials missing, wrong or expired',
  FORBIDDEN: 'this origin or principal is not allowed',
  TIMEOUT: 'the peer did not answer in time',
  TAKEN_OVER: 'a newer connection carries the session',
  STALE_ATTEMPT: 'a newer resume attempt was accepted',
  DETACHED: 'the page leaves its session to the next page',
  TOO_LARGE: 'a message was over a limit',
  RATE_LIMITED: 'too much in too short a time',
  INTERNAL: 'a fault on the side that closes',
  DRAINING: 'the server is full or shuts down',
};

export interface CloseCodeEntry {
  readonly name: CloseCodeName;
  readonly code: number;
  /** Whether a new connection may succeed although nothing has changed. */
  readonly retryable: boolean;
  readonly meaning: string;
}

/** All close codes in ascending order, for documentation and for tools that explain a code. */
export const CLOSE_CODES: readonly CloseCodeEntry[] = (Object.keys(MEANINGS) as CloseCodeName[]).map(
  (name) => {
    const code = CloseCode[name];
    return { name, code, retryable: isRetryableCloseCode(code), meaning: MEANINGS[name] };
  },
);
