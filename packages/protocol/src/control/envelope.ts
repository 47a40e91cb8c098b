import { DEFAULT_LIMITS, type Limits } from '../base/limits.js';
import { acceptFields, helloFields, laterCodecsField, parseHello } from './capabilities.js';
import { dataFields, parseData } from './data.js';
import { decodeJsonEnvelope, encodeJsonEnvelope } from './envelope-json.js';
import { type ControlForms, decodeEnvelope, encodeEnvelope, readAtClient, writeAtClient } from './forms.js';
import type { ControlMessage, UnknownMessage } from './messages.js';

/** Control envelopes of both ends, as a server and tools read and write them; `forms.ts` says how they look. */

/** The forms that either end reads and writes. */
export const ALL_FORMS: ControlForms = {
  read(type, payload) {
    switch (type) {
      case 'HELLO':
        return parseHello(payload);
      case 'READY':
        return { codecs: laterCodecsField(payload) };
      case 'DATA':
        return parseData(payload);
      default:
        return readAtClient(type, payload);
    }
  },

  write(message) {
    switch (message.type) {
      case 'HELLO':
        return helloFields(message.payload);
      case 'ACCEPT':
        return acceptFields(message.payload);
      case 'AUTH':
        return 'token' in message.payload
          ? writeAtClient(message)
          : { expires_at: message.payload.expiresAt };
      case 'GOAWAY': {
        const { retryAfterMs, deadline, move } = message.payload;
        return { retry_after_ms: retryAfterMs, deadline, move };
      }
      case 'DATA':
        return dataFields(message.payload);
      default:
        return writeAtClient(message);
    }
  },
};

/** Encodes a message as a MessagePack map for `m2m.v1`. */
export function encodeControl(message: ControlMessage): Uint8Array<ArrayBuffer> {
  return encodeEnvelope(message, ALL_FORMS);
}

/**
 * Decodes a MessagePack envelope.
 *
 * @param maxSize its largest size in bytes. @default `maxHandshakeSize` of `limits`
 * @throws {ProtocolError} `bad_message`, `message_too_large` over `maxSize` or 512 entries, `json_too_deep`.
 */
export function decodeControl(
  bytes: Uint8Array,
  limits: Limits = DEFAULT_LIMITS,
  maxSize: number = limits.maxHandshakeSize,
): ControlMessage | UnknownMessage {
  return decodeEnvelope(bytes, ALL_FORMS, limits.maxJsonDepth, maxSize);
}

/**
 * Encodes a message as JSON text for `m2m.v1.json`.
 *
 * @throws {ProtocolError} `lone_surrogate`.
 */
export function encodeControlJson(message: ControlMessage): string {
  return encodeJsonEnvelope(message, ALL_FORMS);
}

/**
 * Decodes a JSON envelope.
 *
 * @param maxSize its largest size in UTF-16 units, unless it is DATA, which the caller has bounded.
 * @default `maxHandshakeSize` of `limits`
 * @throws {ProtocolError} `bad_json`, `bad_message`, or the code of the limit that is exceeded.
 */
export function decodeControlJson(
  text: string,
  limits: Limits = DEFAULT_LIMITS,
  maxSize: number = limits.maxHandshakeSize,
): ControlMessage | UnknownMessage {
  return decodeJsonEnvelope(text, ALL_FORMS, limits, maxSize);
}
