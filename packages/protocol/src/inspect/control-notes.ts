import type { FieldValue } from './explanation.js';
import { bytes, number } from './wording.js';

/** What the fields of control messages mean, for somebody who has not read the protocol. */

type Note = string | ((value: FieldValue | undefined) => string | undefined);

const size: Note = (value) =>
  value === 0 ? 'not stated' : typeof value === 'number' ? bytes(value) : undefined;
const milliseconds: Note = (value) =>
  typeof value === 'number' ? `${number(value / 1000)} seconds` : undefined;

const date: Note = (value) => (typeof value === 'number' ? dateOf(value) : undefined);

const NOTES = new Map<string, Note>([
  ['type', 'which message this is'],
  [
    'session_id',
    (value) => (value === null || value === '' ? 'none yet' : 'the session that both ends speak of'),
  ],
  ['timestamp', date],
  ['payload', 'what the message says'],
  ['payload.version', 'protocol version'],
  ['payload.algorithms', 'ways to code a message, the preferred first'],
  ['payload.encodings', 'tokenizer vocabularies, the preferred first'],
  ['payload.preferred_encoding', 'the vocabulary that is wanted'],
  [
    'payload.encoding',
    (value) => (value === null ? 'no vocabulary in common' : 'the vocabulary of the session'),
  ],
  ['payload.security_scanning', 'whether content is scanned'],
  ['payload.max_payload_size', size],
  ['payload.supports_streaming', 'whether replies may come in parts'],
  ['payload.agent_id', 'how the other end calls itself'],
  ['payload.session_timeout_ms', milliseconds],
  ['payload.limits', 'what the client must respect'],
  ['payload.extensions', 'optional parts of the protocol'],
  ['payload.extensions.link', 'requests, streamed replies, flow control'],
  ['payload.extensions.resume', 'the session outlives its connection'],
  ['payload.extensions.vocabularies', 'SHA-256 of each vocabulary, so that both mean the same tokens'],
  ['payload.resume', 'taking a session up again'],
  ['payload.resume.session_id', 'the session to go on with'],
  ['payload.resume.received', 'frames of the session that have arrived'],
  ['payload.resume.attempt', 'grows with every connection'],
  ['payload.resume.window_ms', milliseconds],
  ['payload.resume.recovered', (value) => (value === true ? 'the session goes on' : 'a new session')],
  ['payload.reason', 'why the session ends'],
  ['payload.code', 'why the session is refused'],
  ['payload.message', 'for people'],
  ['payload.retryable', 'whether another attempt may succeed'],
  ['payload.retry_after_ms', milliseconds],
  ['payload.deadline', date],
  ['payload.expires_at', date],
  ['payload.algorithm', 'how the content is coded'],
  ['payload.content', 'the coded content'],
  ['payload.original_size', size],
  ['payload.security_status', 'what a scan of the content found'],
  ['payload.compression', 'capabilities in the shape of the reference implementation'],
  ['payload.compression.algorithms', 'ways to code a message, the preferred first'],
  ['payload.compression.encodings', 'tokenizer vocabularies'],
  ['payload.compression.preferred_encoding', 'the vocabulary that is wanted'],
  ['payload.compression.max_payload', size],
  ['payload.security', 'in the shape of the reference implementation'],
]);

/** @param path names from the message down to the field. */
export function controlNote(path: readonly string[], value: FieldValue | undefined): string | undefined {
  const note = NOTES.get(path.join('.'));
  return typeof note === 'function' ? note(value) : note;
}

/** A point in time in Unix milliseconds, `undefined` for one that no calendar has. */
export function dateOf(time: number): string | undefined {
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString().replace('T', ' ');
}
