import { decodeMsgpack, encodeMsgpack } from '#msgpack';
import { ProtocolError } from '../base/errors.js';
import {
  bad,
  booleanField,
  countField,
  type Fields,
  get,
  isCount,
  isFields,
  objectField,
  stringField,
} from '../base/fields.js';
import { DEFAULT_LIMITS, type Limits } from '../base/limits.js';
import type { SecurityStatus } from '../codec/body.js';
import {
  acceptFields,
  capabilityNames,
  helloFields,
  laterCodecsField,
  parseAccept,
  parseHello,
  tokenField,
} from './capabilities.js';
import {
  type AuthPayload,
  CloseReason,
  type ControlMessage,
  type DataPayload,
  RejectCode,
  type RejectPayload,
  type UnknownMessage,
} from './messages.js';

/**
 * Control envelopes on the wire: `{ type, session_id, timestamp, payload }`, as MessagePack in
 * `m2m.v1` and as JSON in `m2m.v1.json`, with the same field names in both. The reader tolerates spellings and
 * is strict about types; the writer has one spelling for each capability shape.
 */

/** UTF-16 units. */
export const MAX_MESSAGE_LENGTH = 1024;
/** UTF-16 units of a code of the application. */
const MAX_CODE_LENGTH = 64;
/** Bytes of a control message after ACCEPT: the longest token in an envelope. */
export const MAX_CONTROL_SIZE = 20 * 1024;
/** Entries of all lists and maps of a control message together; an empty list or map counts as one entry. */
export const MAX_CONTROL_ENTRIES = 512;

/** Encodes a message as a MessagePack map for `m2m.v1`. */
export function encodeControl(message: ControlMessage): Uint8Array<ArrayBuffer> {
  return encodeMap(toFields(message));
}

/**
 * Decodes a MessagePack envelope.
 *
 * @param maxSize its largest size in bytes. @default `maxHandshakeSize` of `limits`
 * @throws {ProtocolError} `bad_message`, `message_too_large` over `maxSize` or {@link MAX_CONTROL_ENTRIES},
 * `json_too_deep`.
 */
export function decodeControl(
  bytes: Uint8Array,
  limits: Limits = DEFAULT_LIMITS,
  maxSize: number = limits.maxHandshakeSize,
): ControlMessage | UnknownMessage {
  // Envelopes of m2m.v1 never carry content, so one bound fits all of them. It also bounds the memory that a peer
  // can make the decoder use.
  assertControlSize(bytes.length, maxSize);
  return fromFields(decodeMap(bytes, limits.maxJsonDepth, 'control message', MAX_CONTROL_ENTRIES));
}

/**
 * Decodes one MessagePack map of plain values.
 *
 * @param what the map's name in errors.
 * @param maxEntries entries of all its lists and maps together. @default unlimited
 * @throws {ProtocolError} `bad_message`, `json_too_deep`, `bad_utf8`, `message_too_large` for too many entries.
 */
export function decodeMap(bytes: Uint8Array, maxDepth: number, what: string, maxEntries?: number): Fields {
  const value = decodeMsgpack(bytes, maxDepth, what, maxEntries);
  if (!isFields(value)) throw bad(what, 'a map');
  return value;
}

/**
 * Encodes a map of plain values; `undefined` entries are left out.
 *
 * @throws {ProtocolError} `invalid_argument` if a value has no MessagePack form, `lone_surrogate`.
 */
export function encodeMap(fields: Fields): Uint8Array<ArrayBuffer> {
  return encodeMsgpack(fields);
}

/** @throws {ProtocolError} `message_too_large`. */
export function assertControlSize(size: number, max: number): void {
  if (size <= max) return;
  throw new ProtocolError(
    'message_too_large',
    `a control message of ${size} bytes; at most ${max} are accepted`,
  );
}

// --- reading

/** The message that a decoded envelope holds, in either form. @throws {ProtocolError} `bad_message`. */
export function fromFields(fields: Fields): ControlMessage | UnknownMessage {
  const type = get(fields, 'type');
  if (typeof type !== 'string') throw bad('type', 'a string');
  const timestamp = get(fields, 'timestamp');
  if (!isCount(timestamp)) throw bad('timestamp', 'Unix milliseconds');
  const sessionId = stringField(fields, 'session_id', '', 128) || null;
  const payload = objectField(fields, 'payload');
  switch (type) {
    case 'HELLO':
      return { type, sessionId: null, timestamp, payload: parseHello(payload) };
    case 'ACCEPT':
      if (sessionId === null) throw bad('session_id', 'present in ACCEPT');
      return { type, sessionId, timestamp, payload: parseAccept(payload) };
    case 'REJECT':
      return { type, sessionId, timestamp, payload: parseReject(payload) };
    case 'DATA':
      return { type, sessionId, timestamp, payload: parseData(payload) };
    case 'PING':
    case 'PONG':
      return { type, sessionId, timestamp, payload: {} };
    case 'CLOSE':
      return {
        type,
        sessionId,
        timestamp,
        payload: {
          reason: oneOf(CloseReason, get(payload, 'reason'), CloseReason.NORMAL),
          message: stringField(payload, 'message', '', MAX_MESSAGE_LENGTH),
          code: stringField(payload, 'code', '', MAX_CODE_LENGTH) || undefined,
        },
      };
    case 'AUTH':
      return { type, sessionId, timestamp, payload: parseAuth(payload) };
    case 'GOAWAY':
      return {
        type,
        sessionId,
        timestamp,
        payload: {
          retryAfterMs: countField(payload, 'retry_after_ms', 0),
          deadline: countField(payload, 'deadline', 0),
          move: booleanField(payload, 'move', false) || undefined,
        },
      };
    case 'READY':
      return { type, sessionId, timestamp, payload: { codecs: laterCodecsField(payload) } };
    default:
      return { type: 'UNKNOWN', sessionId, timestamp, name: type.slice(0, 64) };
  }
}

function parseReject(payload: Fields): RejectPayload {
  return {
    code: oneOf(RejectCode, get(payload, 'code'), RejectCode.UNKNOWN),
    message: stringField(payload, 'message', '', MAX_MESSAGE_LENGTH),
    retryable: isStated(payload, 'retryable') ? booleanField(payload, 'retryable', false) : undefined,
    retryAfterMs: isStated(payload, 'retry_after_ms') ? countField(payload, 'retry_after_ms', 0) : undefined,
  };
}

function parseAuth(payload: Fields): AuthPayload {
  if (isStated(payload, 'token')) return { token: tokenField(payload) };
  return { expiresAt: isStated(payload, 'expires_at') ? countField(payload, 'expires_at', 0) : null };
}

function isStated(payload: Fields, name: string): boolean {
  const value = get(payload, name);
  return value !== undefined && value !== null;
}

function parseData(payload: Fields): DataPayload {
  const name = get(payload, 'algorithm');
  const algorithm = typeof name === 'string' ? capabilityNames.algorithm(name) : undefined;
  if (algorithm === undefined) throw bad('algorithm', 'the name of a known algorithm');
  const content = get(payload, 'content');
  if (typeof content !== 'string' && !(content instanceof Uint8Array))
    throw bad('content', 'a string or bytes');
  return {
    algorithm,
    content,
    originalSize: isStated(payload, 'original_size') ? countField(payload, 'original_size', 0) : undefined,
    securityStatus: parseSecurityStatus(get(payload, 'security_status')),
  };
}

function parseSecurityStatus(value: unknown): SecurityStatus | undefined {
  if (value === undefined || value === null) return undefined;
  if (!isFields(value)) throw bad('security_status', 'an object');
  const threatType = get(value, 'threat_type');
  const confidence = get(value, 'confidence');
  return {
    scanned: get(value, 'scanned') === true,
    safe: get(value, 'safe') === true,
    threatType: typeof threatType === 'string' ? threatType.slice(0, 128) : undefined,
    confidence: typeof confidence === 'number' ? confidence : undefined,
  };
}

function oneOf<Name extends string>(
  names: Readonly<Record<string, Name>>,
  value: unknown,
  fallback: Name,
): Name {
  return typeof value === 'string' && Object.hasOwn(names, value) ? (names[value] as Name) : fallback;
}

// --- writing

/** An envelope as a map, in either form. */
export function toFields(message: ControlMessage): Fields {
  return {
    type: message.type,
    session_id: message.sessionId ?? undefined,
    timestamp: message.timestamp,
    payload: payloadFields(message),
  };
}

function payloadFields(message: ControlMessage): Fields {
  switch (message.type) {
    case 'HELLO':
      return helloFields(message.payload);
    case 'ACCEPT':
      return acceptFields(message.payload);
    case 'REJECT': {
      const { code, message: text, retryable, retryAfterMs } = message.payload;
      return { code, message: text, retryable, retry_after_ms: retryAfterMs };
    }
    case 'CLOSE':
      return { ...message.payload };
    case 'AUTH':
      return 'token' in message.payload
        ? { token: message.payload.token }
        : { expires_at: message.payload.expiresAt };
    case 'READY':
      return { ...message.payload };
    case 'GOAWAY': {
      const { retryAfterMs, deadline, move } = message.payload;
      return { retry_after_ms: retryAfterMs, deadline, move };
    }
    case 'DATA': {
      const { algorithm, content, originalSize, securityStatus } = message.payload;
      return {
        algorithm,
        content,
        original_size: originalSize,
        security_status: securityStatus && {
          scanned: securityStatus.scanned,
          safe: securityStatus.safe,
          threat_type: securityStatus.threatType,
          confidence: securityStatus.confidence,
        },
      };
    }
    case 'PING':
    case 'PONG':
      return {};
  }
}
