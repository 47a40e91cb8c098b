import { ProtocolError } from '../../base/errors.js';
import { get } from '../../base/fields.js';
import { decodeMap, encodeMap } from '../../control/maps.js';
import { type BodyBounds, bodyValues, readBody } from '../../link/body-snapshot.js';
import type { OutgoingBody } from '../../link/frame.js';
import type { NumberedBody } from '../durable-session.js';
import type { AcceptedResume } from '../resume-token.js';

/** The record of a session. */
export interface DurableRecord {
  readonly begin: Uint8Array;
  readonly accept: AcceptedResume;
  readonly handled: number;
  /** Messages up to that one that are not handled: they are for other clients, and no session has them yet. */
  readonly open: readonly number[];
  /** The mark of each session that has sent messages to this one. */
  readonly heard: ReadonlyMap<string, number>;
  readonly state: Uint8Array | undefined;
  /** The bytes that parts of the server keep with the session, by their names. */
  readonly saved: ReadonlyMap<string, Uint8Array>;
  /** The number of the last message to the client. */
  readonly said: number;
  /** Those of them that are not confirmed, in order. */
  readonly messages: readonly NumberedBody[];
  readonly streams: ReadonlyMap<number, StreamRecord>;
  /** See {@link Commit.ofFormerPages}. @default 0 */
  readonly ofFormerPages?: number | undefined;
  /** The record was behind what the client knew, and the client may not have been told. @default false */
  readonly isBehind?: boolean | undefined;
}

export interface StreamRecord {
  readonly attempt: number;
  readonly isRepeatable: boolean;
  readonly kept: string | undefined;
  readonly parts: readonly Uint8Array[];
  readonly end: Uint8Array | undefined;
}

/** A body in the form that needs no context. */
export function encodeRecordedBody(body: OutgoingBody): Uint8Array {
  return encodeMap({ b: bodyValues(body) });
}

/** @throws {ProtocolError} as `readBody`; `bad_message`. */
export function decodeRecordedBody(bytes: Uint8Array, bounds: BodyBounds): OutgoingBody {
  return readBody(get(decodeMap(bytes, MAX_DEPTH, 'a recorded body'), 'b'), bounds);
}

const MAX_DEPTH = 4;

/** Of a session whose record another server writes by now. */
export function fencedError(): ProtocolError {
  return new ProtocolError('fenced', 'another process has taken the session over');
}
