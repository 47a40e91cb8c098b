import { fieldOf } from '../base/fields.js';
import { prefixOf } from '../base/frame-kind.js';
import { encodeUtf8 } from '../base/text.js';
import { decodeControl, decodeControlJson } from '../control/envelope.js';
import type { ControlMessage, UnknownMessage } from '../control/messages.js';
import { assertUtf8Form } from './content.js';
import { controlNote, dateOf } from './control-notes.js';
import { FieldReader } from './field-reader.js';
import { readJsonObject } from './json-fields.js';
import { readMsgpackMap } from './msgpack-fields.js';
import { catchFault, Fault, findField, type MutableField, type Report, truncate } from './report.js';
import { readTextForm } from './text-form.js';
import { clauses, count, list, number, sentence } from './wording.js';

/** Control messages: MessagePack in `m2m.v1`, JSON in `m2m.v1.json`. */

type Message = ControlMessage | UnknownMessage;

export function explainControl(report: Report, bytes: Uint8Array): void {
  explainEnvelope(
    report,
    bytes,
    (reader) => readMsgpackMap(reader, report.limits.maxJsonDepth, controlNote),
    () => decodeControl(bytes, report.limits),
  );
}

/** @param bytes the text as UTF-8. */
export function explainControlJson(report: Report, text: string, bytes: Uint8Array): void {
  explainEnvelope(
    report,
    bytes,
    (reader) => readJsonObject(reader, report.limits.maxJsonDepth, controlNote),
    () => {
      assertUtf8Form(text);
      return decodeControlJson(text, report.limits);
    },
  );
}

const KNOWN_TYPE = /"type"\s*:\s*"(?:HELLO|ACCEPT|REJECT|DATA|PING|PONG|CLOSE|AUTH|GOAWAY|READY)"/;
const ENVELOPE_FIELDS = /"session_id"\s*:[\s\S]*"payload"\s*:|"payload"\s*:[\s\S]*"session_id"\s*:/;
/** The fields that identify an envelope are near its beginning. */
const MAX_SEARCHED = 4096;

/** Whether a text is most likely an envelope, possibly a damaged one. */
export function looksLikeEnvelope(text: string): boolean {
  const start = text.slice(0, MAX_SEARCHED);
  return /^\s*\{/.test(start) && (KNOWN_TYPE.test(start) || ENVELOPE_FIELDS.test(start));
}

function explainEnvelope(
  report: Report,
  bytes: Uint8Array,
  walk: (reader: FieldReader) => void,
  decode: () => Message,
): void {
  report.kind = 'control';
  const reader = new FieldReader(report, bytes);
  const walked = catchFault(() => walk(reader));
  let message: Message | undefined;
  const refused = catchFault(() => {
    message = decode();
  });
  if (walked !== undefined && refused !== undefined) redactRest(report, reader);
  const type = report.fields.find(({ name }) => name === 'type')?.value;
  report.label = message?.type === 'UNKNOWN' || message === undefined ? labelOf(type) : message.type;
  if (refused !== undefined) {
    report.refuse(new Fault(refused.error, refused.offset || (walked?.offset ?? placeOf(report, refused))));
  } else if (message !== undefined) {
    report.summary = summaryOf(message);
    if (message.type === 'DATA') readContent(report, message.payload.content, message.payload.algorithm);
  }
}

/** After a fault, any byte may belong to a credential. */
function redactRest(report: Report, reader: FieldReader): void {
  const field = report.add(report.fields, 'the rest', reader.offset, reader.remaining);
  field.isSecret = true;
  field.note = 'not understood, may contain a credential';
}

function labelOf(type: MutableField['value']): string {
  return typeof type === 'string' ? truncate(type, 24) : 'control message';
}

function placeOf(report: Report, { error }: Fault): number {
  const name = fieldOf(error)?.split(' ')[0]?.split('.').at(-1) ?? '';
  return (findField(report.fields, name) ?? findField(report.fields, 'payload'))?.offset ?? 0;
}

/** Explains the content of DATA as a frame of its own. */
function readContent(report: Report, content: string | Uint8Array, algorithm: string): void {
  const field = report.fields
    .find(({ name }) => name === 'payload')
    ?.children.find(({ name }) => name === 'content');
  if (field === undefined || typeof content !== 'string') return;
  const { summary } = report;
  field.bytes = encodeUtf8(content);
  const fault = catchFault(() => {
    const reader = new FieldReader(report, field.bytes as Uint8Array, field.children);
    report.summary = sentence(summary, readTextForm(reader, content));
  });
  if (fault !== undefined) report.refuse(new Fault(fault.error, field.offset));
  else if ((prefixOf(content) === undefined) !== (algorithm === 'NONE')) {
    field.note = `stated as ${algorithm}, but ${prefixOf(content) === undefined ? 'has no prefix' : `begins with ${prefixOf(content)}`}`;
  }
}

// --- in one line

function summaryOf(message: Message): string {
  switch (message.type) {
    case 'HELLO': {
      const { algorithms, encodings, preferredEncoding, extensions, resume, agentId, shape } =
        message.payload;
      return clauses(
        resume && `resumes session ${resume.sessionId}, ${count(resume.received, 'frame')} received`,
        `offers codecs ${list(algorithms)}`,
        `vocabularies ${list(encodings)}`,
        preferredEncoding !== null && preferredEncoding !== encodings[0] && `prefers ${preferredEncoding}`,
        `extensions ${list(Object.keys(extensions))}`,
        agentId && `ID ${agentId}`,
        shape === 'nested' && "in the reference implementation's shape",
      );
    }
    case 'ACCEPT': {
      const { algorithms, encoding, extensions, resume } = message.payload;
      return clauses(
        resume?.recovered
          ? `session ${message.sessionId} resumed, ${count(resume.received, 'frame')} received`
          : `session ${message.sessionId} is open`,
        resume?.reason && `the previous session is lost (${resume.reason})`,
        algorithms === undefined ? 'all codecs that were offered' : `codecs ${list(algorithms)}`,
        `vocabulary ${encoding ?? 'none'}`,
        `extensions ${list(Object.keys(extensions))}`,
      );
    }
    case 'REJECT': {
      const { code, message: text, retryable, retryAfterMs } = message.payload;
      return clauses(
        `session refused: ${code}`,
        text,
        retryable === true && 'a retry may succeed',
        retryAfterMs !== undefined && `retry after ${number(retryAfterMs / 1000)} s`,
      );
    }
    case 'DATA':
      return `content encoded as ${message.payload.algorithm}`;
    case 'PING':
      return 'checks that the other end responds';
    case 'PONG':
      return 'answers a PING';
    case 'CLOSE':
      return clauses(`ends the session: ${message.payload.reason}`, message.payload.message);
    case 'AUTH':
      if ('token' in message.payload) return 'new credentials';
      return message.payload.expiresAt === null
        ? 'credentials accepted, without expiry'
        : `credentials accepted until ${dateOf(message.payload.expiresAt)}`;
    case 'GOAWAY': {
      const { retryAfterMs, deadline, move } = message.payload;
      if (move)
        return clauses(
          `the server shuts down at ${dateOf(deadline)}`,
          `the session continues over another connection, opened within ${number(retryAfterMs / 1000)} s`,
        );
      return clauses(
        `the server shuts down at ${dateOf(deadline)}`,
        'no new requests',
        `reconnect after ${number(retryAfterMs / 1000)} s`,
      );
    }
    case 'READY':
      return `the client has loaded ${list(message.payload.codecs)}`;
    case 'UNKNOWN':
      return 'unknown message type, ignored';
  }
}
