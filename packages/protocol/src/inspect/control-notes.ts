import type { FieldValue } from './explanation.js';
import { byteCount, number } from './wording.js';

/** The meaning of control message fields, for readers who do not know the protocol. */

type Note = string | ((value: FieldValue | undefined) => string | undefined);

const size: Note = (value) =>
  value === 0 ? 'not stated' : typeof value === 'number' ? byteCount(value) : undefined;
const milliseconds: Note = (value) =>
  typeof value === 'number' ? `${number(value / 1000)} seconds` : undefined;

const date: Note = (value) => (typeof value === 'number' ? dateOf(value) : undefined);

const NOTES = new Map<string, Note>([
  ['type', 'type of the message'],
  ['session_id', (value) => (value === null || value === '' ? 'none yet' : 'session ID')],
  ['timestamp', date],
  ['payload', 'content of the message'],
  ['payload.version', 'protocol version'],
  ['payload.algorithms', 'codecs for messages, preferred first'],
  ['payload.encodings', 'tokenizer vocabularies, preferred first'],
  ['payload.preferred_encoding', 'the preferred vocabulary'],
  ['payload.encoding', (value) => (value === null ? 'no common vocabulary' : 'vocabulary of the session')],
  ['payload.security_scanning', 'whether content is scanned'],
  ['payload.max_payload_size', size],
  ['payload.supports_streaming', 'whether replies may be streamed'],
  ['payload.agent_id', 'ID of the sender'],
  ['payload.session_timeout_ms', milliseconds],
  ['payload.limits', 'limits for the client'],
  ['payload.extensions', 'protocol extensions'],
  ['payload.extensions.link', 'requests, streamed replies, flow control'],
  ['payload.extensions.resume', 'the session survives a lost connection'],
  ['payload.extensions.vocabularies', 'SHA-256 of each vocabulary, to check that both ends use the same'],
  ['payload.extensions.rebuild', 'a page that is loaded again can take the session up'],
  ['payload.extensions.move', 'the session can change its connection without a gap'],
  ['payload.extensions.durable', 'the session outlives the process that has it'],
  ['payload.extensions.std', 'fields that are absent have their standard values'],
  ['payload.resume', 'resumes an earlier session'],
  ['payload.resume.session_id', 'the session to resume'],
  ['payload.nonce', 'names the session, if this HELLO comes again'],
  ['payload.resume.received', 'frames of the session received so far'],
  ['payload.resume.attempt', 'increases with every connection'],
  ['payload.resume.rebuild', 'the page was loaded again and needs a new link'],
  ['payload.resume.rebuilt', 'where the new link continues'],
  ['payload.resume.rebuilt.stream', 'the largest stream ID of the client so far'],
  ['payload.resume.rebuilt.cancelled', 'requests of the former page that were interrupted'],
  ['payload.resume.rebuilt.kept', 'what the next process has'],
  ['payload.resume.rebuilt.kept.handled', 'messages of the client that need not be written again'],
  ['payload.resume.rebuilt.kept.again', 'requests that the client writes again'],
  ['payload.resume.have', 'what the client has, for a process that has nothing of the link'],
  ['payload.resume.have.messages', 'messages of the server that were received'],
  ['payload.resume.have.sent', 'own messages that were acknowledged'],
  ['payload.resume.have.written', 'own messages that were written'],
  ['payload.resume.have.opened', 'the largest stream ID of the client'],
  ['payload.resume.have.heard', 'the largest stream ID of the server'],
  ['payload.resume.have.streams', 'open requests, each as ID, parts received, and flags'],
  ['payload.resume.window_ms', milliseconds],
  ['payload.resume.recovered', (value) => (value === true ? 'the session is resumed' : 'a new session')],
  ['payload.reason', 'why the session ends'],
  ['payload.code', 'why the session is refused'],
  ['payload.message', 'message for people'],
  ['payload.retryable', 'whether a retry may succeed'],
  ['payload.retry_after_ms', milliseconds],
  ['payload.deadline', date],
  ['payload.move', 'the session continues over another connection'],
  ['payload.expires_at', date],
  ['payload.algorithm', 'codec of the content'],
  ['payload.content', 'the encoded content'],
  ['payload.original_size', size],
  ['payload.security_status', 'result of the content scan'],
  ['payload.compression', 'capabilities in the shape of the reference implementation'],
  ['payload.compression.algorithms', 'codecs for messages, preferred first'],
  ['payload.compression.encodings', 'tokenizer vocabularies'],
  ['payload.compression.preferred_encoding', 'the preferred vocabulary'],
  ['payload.compression.max_payload', size],
  ['payload.security', 'in the shape of the reference implementation'],
]);

/** @param path names from the message down to the field. */
export function controlNote(path: readonly string[], value: FieldValue | undefined): string | undefined {
  const note = NOTES.get(path.join('.'));
  return typeof note === 'function' ? note(value) : note;
}

/** Formats Unix milliseconds; `undefined` if they are out of range for a date. */
export function dateOf(time: number): string | undefined {
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString().replace('T', ' ');
}
