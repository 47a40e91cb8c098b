import { isApplicationCode, ProtocolError, RequestError } from '../base/errors.js';
import { get, isCount } from '../base/fields.js';
import { truncateUtf8, utf8Length } from '../base/text.js';
import { decodeMap, encodeMap } from '../control/maps.js';

/** The body of an error frame, which carries the error of a request to its sender. */

/** In bytes of UTF-8. Both together leave room in the frame for the other fields. */
const MAX_MESSAGE_LENGTH = 1024;
const MAX_DATA_SIZE = 8 * 1024;
const MAX_FRAME_SIZE = 16 * 1024;

/** Codes that Parlance itself sends in error frames; all others belong to applications. */
const OWN_CODES = [
  'internal',
  'cancelled',
  'unsupported',
  'rate_limited',
  'over_budget',
  'draining',
  'too_many_streams',
  'timeout',
  'forbidden',
  'message_too_large',
  'transfer_too_large',
  'unrepresentable',
  'unknown_agent',
  'peer_gone',
  'unknown_reply',
  'gone',
  'too_many_replies',
  'reply_too_large',
  'interrupted',
] as const;
/** Codes for defects of a received tensor or request; no error of a handler is sent with one of these. */
const VERDICT_CODES = [
  'bad_frame',
  'truncated',
  'trailing_bytes',
  'bad_varint',
  'bad_header',
  'bad_message',
  'bad_utf8',
  'bad_json',
  'bad_token',
  'bad_tensor',
  'bad_checksum',
  'bad_compression',
  'unknown_schema',
  'unknown_security_mode',
  'unknown_version',
  'security_required',
  'authentication_failed',
  'json_too_deep',
  'string_too_long',
  'array_too_long',
  'too_many_values',
  'metadata_too_large',
  'message_too_large',
  'transfer_too_large',
  'decompressed_too_large',
] as const;
type SentCode = (typeof OWN_CODES)[number] | (typeof VERDICT_CODES)[number];

/**
 * Encodes what a handler threw. A {@link RequestError} is sent with its message and data. Any other error
 * that is not Parlance's own is sent as `internal`, as its text may be confidential.
 */
export function encodeFailure(error: unknown): Uint8Array {
  if (error instanceof RequestError) {
    return encodeMap({
      code: error.code,
      message: truncateUtf8(error.message, MAX_MESSAGE_LENGTH),
      retry_after_ms: error.retryAfterMs,
      // Always present: it distinguishes this from an error of Parlance's own with the same code.
      retryable: error.retryable,
      data: dataOf(error),
    });
  }
  if (error instanceof ProtocolError && isOneOf(OWN_CODES, error.code)) {
    return encodeMap({
      code: error.code,
      message: truncateUtf8(error.message, MAX_MESSAGE_LENGTH),
      retry_after_ms: error.retryAfterMs,
    });
  }
  return encodeMap({ code: 'internal', message: 'the handler failed; see the log at its end' });
}

/** Encodes why a tensor or a request is refused. The text reveals nothing that its sender does not know. */
export function encodeVerdict(error: ProtocolError): Uint8Array {
  return !(error instanceof RequestError) && isOneOf(VERDICT_CODES, error.code)
    ? encodeMap({ code: error.code, message: truncateUtf8(error.message, MAX_MESSAGE_LENGTH) })
    : encodeFailure(error);
}

/** The application's data as JSON; `undefined` if JSON cannot represent it or it is too large. */
function dataOf({ data }: RequestError): string | undefined {
  let json: string | undefined;
  try {
    json = JSON.stringify(data);
  } catch {
    return undefined;
  }
  return json !== undefined && utf8Length(json) <= MAX_DATA_SIZE ? json : undefined;
}

/** Whether the requester gets this error without the data that its handler has given it. */
export function losesData(error: unknown): boolean {
  return error instanceof RequestError && error.data !== undefined && dataOf(error) === undefined;
}

/** @throws {ProtocolError} `bad_message`, `message_too_large`, `json_too_deep` if the frame is malformed. */
export function decodeFailure(body: Uint8Array, maxDepth: number): ProtocolError | RequestError {
  if (body.length > MAX_FRAME_SIZE) {
    throw new ProtocolError(
      'message_too_large',
      `an error frame of ${body.length} bytes exceeds the limit of ${MAX_FRAME_SIZE}`,
    );
  }
  const map = decodeMap(body, maxDepth, 'an error frame');
  const code = get(map, 'code');
  if (typeof code !== 'string' || !isApplicationCode(code)) {
    throw new ProtocolError(
      'bad_message',
      'the code of an error frame must be 1 to 64 characters of a-z, 0-9 and _',
    );
  }
  const text = get(map, 'message');
  const message = typeof text === 'string' ? text : code;
  const after = get(map, 'retry_after_ms');
  const retryAfterMs = isCount(after) ? after : undefined;
  const retryable = get(map, 'retryable');
  if (isSentCode(code) && retryable === undefined)
    return new ProtocolError(code, message, { side: 'remote', retryAfterMs });
  return new RequestError(code, message, {
    side: 'remote',
    retryable: retryable === true,
    retryAfterMs,
    data: parseData(get(map, 'data')),
  });
}

function parseData(data: unknown): unknown {
  if (typeof data !== 'string') return undefined;
  try {
    return JSON.parse(data);
  } catch (cause) {
    throw new ProtocolError('bad_message', 'the data of an error frame is not JSON', { cause });
  }
}

function isSentCode(code: string): code is SentCode {
  return isOneOf(OWN_CODES, code) || isOneOf(VERDICT_CODES, code);
}

function isOneOf(codes: readonly string[], code: string): boolean {
  return codes.includes(code);
}
