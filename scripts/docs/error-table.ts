import { ERROR_CODES, type ErrorCode, ProtocolError } from '../../packages/protocol/src/base/errors.js';
import { decodeFailure, encodeFailure, encodeVerdict } from '../../packages/protocol/src/link/failure.js';
import { code, table } from './markdown.js';

/** Who raises each error, and why. Where it travels follows from the code. */

type Raiser = 'peer' | 'self' | 'server' | 'client' | 'both' | 'peer, self' | 'server, self' | 'client, self';

const ERRORS: Readonly<Record<ErrorCode, readonly [raisedBy: Raiser, why: string]>> = {
  bad_frame: ['peer', 'a frame, or the order of frames, breaks the protocol'],
  bad_message: [
    'peer',
    'a field of a map has the wrong type, or is missing; metadata or an error frame are not a map',
  ],
  protocol_violation: ['peer', 'a message that this state or role does not allow'],
  truncated: ['peer', 'something ends before its last byte'],
  trailing_bytes: ['peer', 'bytes follow the end of something'],
  bad_varint: ['peer', 'an overlong varint, or one above its bound'],
  bad_utf8: ['peer', 'bytes are not UTF-8; a reply of token IDs ends inside a character'],
  bad_base64: ['peer', 'a text form is not base64'],
  bad_json: ['peer', 'a text is not JSON'],
  bad_compression: ['peer', 'a compressed body is damaged or not of the agreed kind'],
  bad_header: ['peer', 'the header of an M2M or AVP frame contradicts itself'],
  bad_tensor: ['peer, self', 'shape, element type and size of a tensor do not fit'],
  bad_token: ['peer', 'an unknown or special token ID of a vocabulary; never about credentials'],
  bad_checksum: ['peer', 'a CRC does not fit'],
  bad_acceptance: ['client', 'an ACCEPT goes beyond the offer'],
  unknown_prefix: ['peer', 'a binary frame begins with `#` and no known prefix'],
  unknown_schema: ['peer', 'M2M'],
  unknown_security_mode: ['peer', 'M2M'],
  unknown_version: ['peer', 'AVP'],
  security_required: ['peer, self', 'a body without the protection that this end demands'],
  authentication_failed: ['peer', 'a protected body is not authentic under the key; never about credentials'],
  message_too_large: ['peer, self', 'a message is above a limit'],
  transfer_too_large: ['peer, self', 'a tensor is above a limit'],
  decompressed_too_large: ['peer', 'a body expands further than allowed or stated'],
  json_too_deep: ['peer', 'JSON or MessagePack nests too deep'],
  string_too_long: ['peer', 'a string of JSON is above a limit'],
  array_too_long: ['peer', 'a list of JSON is above a limit'],
  too_many_values: ['peer', 'a document of JSON is above a limit'],
  metadata_too_large: ['peer, self', 'metadata are above a limit'],
  window_exceeded: ['peer', 'a frame exceeds its credit'],
  over_budget: ['both', 'this end has no memory left for its peer'],
  too_many_streams: ['peer, self', 'more streams than the peer allows; a second watch of the directory'],
  rate_limited: ['peer', 'more than the rates allow'],
  rejected: ['server', 'REJECT'],
  unauthenticated: ['server', 'credentials are missing, wrong or over'],
  forbidden: ['server', 'not admitted; a policy refuses a request to an agent'],
  timeout: ['both', 'the peer did not answer in time'],
  taken_over: ['server', 'a newer connection, or a newer session of the same agent, has taken the place'],
  fenced: ['server', 'another process has the session'],
  stale_attempt: ['server', 'a newer attempt to resume was accepted'],
  draining: ['server, self', 'the server drains and takes no more requests'],
  internal: ['both', 'this end, or its application, has failed'],
  connection_failed: ['self', 'the connection could not be opened, or ended before ACCEPT'],
  session_lost: ['self', 'the session ended without CLOSE'],
  session_closed: ['self', 'a call on a session that is closed'],
  unsupported: ['both', 'the peer, or the agreement, does not allow it'],
  unrepresentable: ['self', 'a codec cannot carry the content'],
  lone_surrogate: ['peer, self', 'a text has half a surrogate pair'],
  invalid_option: ['self', 'an option is wrong'],
  invalid_argument: ['self', 'an argument is wrong'],
  invalid_key: ['self', 'a key has the wrong length'],
  codec_not_loaded: ['self', 'the code of a codec is not there'],
  vocabulary_not_loaded: ['self', 'a vocabulary is not there'],
  vocabulary_unavailable: ['self', 'a vocabulary cannot be had'],
  vocabulary_mismatch: ['self', 'a vocabulary is not the one that its hash names'],
  unknown_reply: ['server', 'no kept reply of that name, or none that the session may follow'],
  gone: ['server', 'a kept reply went to make room for others, or its time was over, while it was followed'],
  too_many_replies: ['server', 'the principal keeps too many replies; only in the log of the server'],
  reply_too_large: ['server', 'a kept reply is above its limit; it continues for its requester'],
  unknown_agent: ['server', 'no agent of that name, or none that the sender may see'],
  peer_gone: ['server', 'the target of a request has left'],
  interrupted: ['both', 'the page was loaded again, or a process is gone, before the answer'],
  cancelled: ['both', 'given up'],
};

export function errorTable(): string {
  const rows = Object.entries(ERRORS).map(([name, [raisedBy, why]]) => {
    const { closeCode, retryable } = ERROR_CODES[name as ErrorCode];
    const closes = closeCode === 1000 || closeCode === 1006 ? '–' : String(closeCode);
    return [code(name), raisedBy, closes, inErrorFrame(name as ErrorCode), retryable ? 'yes' : 'no', why];
  });
  return table(['code', 'raised by', 'close', 'error frame', 'again?', 'why'], rows);
}

function inErrorFrame(name: ErrorCode): string {
  const error = new ProtocolError(name, '');
  const sent = (frame: Uint8Array) => decodeFailure(frame, 4).code === name;
  if (sent(encodeFailure(error)))
    return sent(encodeVerdict(error)) && VERDICTS.has(name) ? 'answer, verdict' : 'answer';
  return sent(encodeVerdict(error)) ? 'verdict' : '–';
}

/** Those that are both. */
const VERDICTS: ReadonlySet<ErrorCode> = new Set(['message_too_large', 'transfer_too_large']);
