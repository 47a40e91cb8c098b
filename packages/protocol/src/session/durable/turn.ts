import { ProtocolError } from '../../base/errors.js';
import { get } from '../../base/fields.js';
import { decodeMap, encodeMap } from '../../control/envelope.js';
import { type BodyBounds, bodyValues, readBody } from '../../link/body-snapshot.js';
import type { OutgoingBody } from '../../link/frame.js';

/**
 * What a durable session puts on record. A session writes one turn after the other: the next one waits until the present
 * one is on record, so each of them may be written again until its answer arrives. All of a turn is written, or nothing.
 */

/** Everything that happened in a session since the turn before. */
export interface Turn {
  /** From 1 in each process that has the session: what is on record under this number is not written again. */
  readonly number: number;
  /** Only in the first turn of a session: its ID and agreement, which never change. */
  readonly begin: Uint8Array | undefined;
  /** Who may resume the session from now on: ACCEPT is not sent before that is on record. */
  readonly accept: AcceptedResume | undefined;
  /** One-way messages of the client that are handled, but for those that are on record as open. */
  readonly handled: number | undefined;
  /** Messages of the client to other agents, among those that are handled, which no agent's session has yet. */
  readonly opened: readonly number[];
  /** Such messages that were on record as open, and are not any more. */
  readonly settled: readonly number[];
  /** A mark for each other session that has sent a message to this one; 0 forgets a session. */
  readonly heard: ReadonlyMap<string, number>;
  /** The application's state of the session. */
  readonly state: Uint8Array | undefined;
  /** What parts of the server keep with the session, by their names; empty is nothing. */
  readonly saved: ReadonlyMap<string, Uint8Array>;
  /** One-way messages to the client. */
  readonly messages: readonly NumberedBody[];
  /** The client has the messages up to this one, even if the record knows none of them. */
  readonly confirmed: number | undefined;
  readonly streams: ReadonlyMap<number, StreamTurn>;
  /** Whether the client is to be told that the record was behind. */
  readonly isBehind: boolean | undefined;
}

export interface AcceptedResume {
  /** SHA-256 of the valid tokens, in hexadecimal. */
  readonly tokens: readonly string[];
  readonly attempt: number;
}

export interface NumberedBody {
  readonly number: number;
  readonly body: Uint8Array;
}

/** What happened to one request of the client, and its reply. */
export interface StreamTurn {
  /** Its handler is about to be called, for the so-many-th time. */
  readonly attempt: number | undefined;
  /** The handler is to be called again if this process dies. */
  readonly isRepeatable: boolean;
  /** The reply is kept under this ID, which another process that goes on with it has to know. */
  readonly kept: string | undefined;
  /** The number of the first of the parts; parts count from 0. */
  readonly from: number;
  readonly parts: readonly Uint8Array[];
  /** The reply is over: empty if it is complete, else the body of the error frame. */
  readonly end: Uint8Array | undefined;
  /** The client has everything: nothing of the stream is needed any more. */
  readonly isForgotten: boolean;
}

/** What is on record of a session. */
export interface DurableRecord {
  readonly begin: Uint8Array;
  readonly accept: AcceptedResume;
  readonly handled: number;
  /** Messages up to that one that are not handled: they are for other agents, and no session has them yet. */
  readonly open: readonly number[];
  /** The mark of each session that has sent messages to this one. */
  readonly heard: ReadonlyMap<string, number>;
  readonly state: Uint8Array | undefined;
  /** What parts of the server keep with the session, by their names. */
  readonly saved: ReadonlyMap<string, Uint8Array>;
  /** The number of the last message to the client. */
  readonly said: number;
  /** Those of them that are not confirmed, in order. */
  readonly messages: readonly NumberedBody[];
  readonly streams: ReadonlyMap<number, StreamRecord>;
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
  return readBody(get(decodeMap(bytes, MAX_DEPTH, 'a body on record'), 'b'), bounds);
}

const MAX_DEPTH = 4;

/** Of a session whose record another server writes by now. */
export function fencedError(): ProtocolError {
  return new ProtocolError('fenced', 'another process has taken the session over');
}
