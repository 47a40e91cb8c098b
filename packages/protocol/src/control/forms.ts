import { Subprotocol } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import {
  bad,
  booleanField,
  countField,
  type Fields,
  get,
  isCount,
  isStated,
  objectField,
  stringField,
} from '../base/fields.js';
import { flatHelloFields, parseAccept, tokenField } from './capabilities.js';
import { assertControlSize, decodeMap, encodeMap, MAX_CONTROL_ENTRIES, MAX_MESSAGE_LENGTH } from './maps.js';
import {
  type AuthPayload,
  CloseReason,
  type ControlMessage,
  RejectCode,
  type RejectPayload,
  type UnknownMessage,
} from './messages.js';

/**
 * Control envelopes on the wire: `{ type, session_id, timestamp, payload }`, as MessagePack in
 * `m2m.v1` and as JSON in `m2m.v1.json`, with the same field names in both. The reader tolerates spellings and
 * is strict about types; the writer has one spelling for each capability shape.
 *
 * This file has what a client needs: pages load it. `envelope.ts` has the rest.
 */

/** How an end reads and writes the payloads of its messages. */
export interface ControlForms {
  /**
   * Returns `undefined` for a type that this version does not know.
   *
   * @throws {ProtocolError} `bad_message`; `protocol_violation` for a message that the other end does not send.
   */
  read(type: string, payload: Fields): ControlMessage['payload'] | undefined;
  write(message: ControlMessage): Fields;
}

/** UTF-16 units of a code of the application. */
const MAX_CODE_LENGTH = 64;

/** Encodes a message as a MessagePack map for `m2m.v1`. */
export function encodeEnvelope(message: ControlMessage, forms: ControlForms): Uint8Array<ArrayBuffer> {
  return encodeMap(toFields(message, forms));
}

/**
 * Decodes a MessagePack envelope.
 *
 * @param maxSize its largest size in bytes.
 * @throws {ProtocolError} `bad_message`, `message_too_large` over `maxSize` or {@link MAX_CONTROL_ENTRIES},
 * `json_too_deep`.
 */
export function decodeEnvelope(
  bytes: Uint8Array,
  forms: ControlForms,
  maxDepth: number,
  maxSize: number,
): ControlMessage | UnknownMessage {
  // Envelopes of m2m.v1 never carry content, so one bound fits all of them. It also bounds the memory that a peer
  // can make the decoder use.
  assertControlSize(bytes.length, maxSize);
  return fromFields(decodeMap(bytes, maxDepth, 'control message', MAX_CONTROL_ENTRIES), forms);
}

/** The message that a decoded envelope holds, in either form. @throws {ProtocolError} as `ControlForms.read`. */
export function fromFields(fields: Fields, forms: ControlForms): ControlMessage | UnknownMessage {
  const type = get(fields, 'type');
  if (typeof type !== 'string') throw bad('type', 'a string');
  const timestamp = get(fields, 'timestamp');
  if (!isCount(timestamp)) throw bad('timestamp', 'Unix milliseconds');
  const stated = stringField(fields, 'session_id', '', 128);
  if (type === 'ACCEPT' && stated === '') throw bad('session_id', 'present in ACCEPT');
  const sessionId = type === 'HELLO' ? null : stated || null;
  const payload = forms.read(type, objectField(fields, 'payload'));
  return payload === undefined
    ? { type: 'UNKNOWN', sessionId, timestamp, name: type.slice(0, 64) }
    : ({ type, sessionId, timestamp, payload } as ControlMessage);
}

/** An envelope as a map, in either form. */
export function toFields(message: ControlMessage, forms: ControlForms): Fields {
  return {
    type: message.type,
    session_id: message.sessionId ?? undefined,
    timestamp: message.timestamp,
    payload: forms.write(message),
  };
}

/** The forms that a client reads and writes; its offers have the flat shape. */
export const CLIENT_FORMS: ControlForms = { read: readAtClient, write: writeAtClient };

export function readAtClient(type: string, payload: Fields): ControlMessage['payload'] | undefined {
  switch (type) {
    case 'ACCEPT':
      return parseAccept(payload);
    case 'REJECT':
      return parseReject(payload);
    case 'PING':
    case 'PONG':
      return {};
    case 'CLOSE':
      return {
        reason: oneOf(CloseReason, get(payload, 'reason'), CloseReason.NORMAL),
        message: stringField(payload, 'message', '', MAX_MESSAGE_LENGTH),
        code: stringField(payload, 'code', '', MAX_CODE_LENGTH) || undefined,
      };
    case 'AUTH':
      return parseAuth(payload);
    case 'GOAWAY':
      return {
        retryAfterMs: countField(payload, 'retry_after_ms', 0),
        deadline: countField(payload, 'deadline', 0),
        move: booleanField(payload, 'move', false) || undefined,
      };
    case 'HELLO':
    case 'READY':
      throw new ProtocolError('protocol_violation', `${type} is for a client to send`);
    case 'DATA':
      throw new ProtocolError('protocol_violation', `DATA belongs to ${Subprotocol.JSON}`);
    default:
      return undefined;
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

function oneOf<Name extends string>(
  names: Readonly<Record<string, Name>>,
  value: unknown,
  fallback: Name,
): Name {
  return typeof value === 'string' && Object.hasOwn(names, value) ? (names[value] as Name) : fallback;
}

export function writeAtClient(message: ControlMessage): Fields {
  switch (message.type) {
    case 'HELLO':
      return flatHelloFields(message.payload);
    case 'REJECT': {
      const { code, message: text, retryable, retryAfterMs } = message.payload;
      return { code, message: text, retryable, retry_after_ms: retryAfterMs };
    }
    // AUTH of a client, CLOSE, PING, PONG and READY.
    default:
      return { ...message.payload };
  }
}
