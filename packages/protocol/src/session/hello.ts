import type { CloseCode } from '../base/close-codes.js';
import { Extension, Subprotocol } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import { assertContextParameters } from '../codec/context/parameters.js';
import { linkParameters } from '../control/agreement.js';
import { laterCodecs } from '../control/capabilities.js';
import { encodeMap } from '../control/maps.js';
import type { HelloPayload, RejectPayload, ResumeRefusal } from '../control/messages.js';
import { ALL_CODE } from './all-code.js';
import { rejectOf } from './close-reason.js';
import { encodeControl } from './control-writer.js';
import { readIncoming, WAIT, WAIT_IS_OF_SERVERS } from './incoming.js';
import { nonceToken } from './resume-token.js';
import type { SessionOptions } from './types.js';

/** The frames that a server reads and writes on a connection that has no session yet. */

/**
 * Reads a message before ACCEPT.
 *
 * @returns `undefined` for a message of unknown type, which is ignored.
 * @throws {ProtocolError} for any message but HELLO, and for a HELLO that is malformed.
 */
export function readHello(data: Uint8Array | string, options: SessionOptions): HelloPayload | undefined {
  const incoming = readIncoming(data, { options, limits: options.limits, code: ALL_CODE }, false, true);
  if (incoming.type === 'bare') throw new ProtocolError('protocol_violation', 'data before ACCEPT');
  const { message } = incoming;
  switch (message.type) {
    case 'HELLO':
      return checkHello(message.payload);
    case 'UNKNOWN':
      if (message.name === WAIT) throw new ProtocolError('protocol_violation', WAIT_IS_OF_SERVERS);
      return undefined;
    case 'ACCEPT':
    case 'REJECT':
      throw new ProtocolError('protocol_violation', `${message.type} is for a server to send`);
    default:
      throw new ProtocolError('protocol_violation', `${message.type} before ACCEPT`);
  }
}

/**
 * A HELLO that has come before, as one that resumes the session that it has begun. Its client has not seen ACCEPT.
 *
 * @param refusal why a session began, if it also asks for another one that cannot be resumed.
 * @returns `undefined` if it has no nonce.
 */
export function repeated(
  hello: HelloPayload,
  sessionId: string,
  refusal: ResumeRefusal | undefined,
): HelloPayload | undefined {
  const { nonce } = hello;
  if (nonce === undefined) return undefined;
  const token = nonceToken(nonce);
  return { ...hello, resume: { sessionId, token, received: 0, attempt: 0, again: { refusal } } };
}

/** Validates a HELLO when it arrives, so that one that is malformed is blamed on the client. */
export function checkHello(hello: HelloPayload): HelloPayload {
  const { extensions } = hello;
  linkParameters(extensions);
  const context = extensions[Extension.CONTEXT];
  if (context !== undefined) assertContextParameters(context);
  const later = extensions[Extension.READY];
  if (later !== undefined) laterCodecs(later);
  return hello;
}

/** The answer to HELLO takes time. @param now Unix milliseconds. */
export function waitFrame(subprotocol: Subprotocol, now: number): Uint8Array | string {
  const fields = { type: WAIT, session_id: null, timestamp: now, payload: {} };
  return subprotocol === Subprotocol.JSON ? JSON.stringify(fields) : encodeMap(fields);
}

/** @param now Unix milliseconds. */
export function rejectFrame(
  refusal: RejectPayload,
  closeCode: CloseCode,
  subprotocol: Subprotocol,
  now: number,
): Uint8Array | string {
  const message = { type: 'REJECT', payload: rejectOf(refusal, closeCode) } as const;
  return encodeControl({ ...message, sessionId: null, timestamp: now }, subprotocol, ALL_CODE);
}
