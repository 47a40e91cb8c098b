import { fieldOf } from '../base/fields.js';
import { prefixOf } from '../base/frame-kind.js';
import { encodeUtf8 } from '../base/text.js';
import { decodeControl, decodeControlJson } from '../control/envelope.js';
import type { ControlMessage, UnknownMessage } from '../control/messages.js';
import { controlNote, dateOf } from './control-notes.js';
import { FieldReader } from './field-reader.js';
import { readJsonObject } from './json-fields.js';
import { readMsgpackMap } from './msgpack-fields.js';
import { attempt, Fault, findField, type MutableField, type Report, shortened } from './report.js';
import { readTextForm } from './text-form.js';
import { assertUtf8Form } from './utf8.js';
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

const KNOWN_TYPE = /"type"\s*:\s*"(?:HELLO|ACCEPT|REJECT|DATA|PING|PONG|CLOSE|AUTH|GOAWAY)"/;
const ENVELOPE_FIELDS = /"session_id"\s*:[\s\S]*"payload"\s*:|"payload"\s*:[\s\S]*"session_id"\s*:/;
/** Envelopes say at the beginning what they are. */
const LOOKED_AT = 4096;

/** Whether a text is most likely an envelope, also a damaged one. */
export function looksLikeEnvelope(text: string): boolean {
  const start = text.slice(0, LOOKED_AT);
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
  const walked = attempt(() => walk(reader));
  let message: Message | undefined;
  const refused = attempt(() => {
    message = decode();
  });
  if (walked !== undefined && refused !== undefined) withholdRest(report, reader);
  const type = report.fields.find(({ name }) => name === 'type')?.value;
  report.label = message?.type === 'UNKNOWN' || message === undefined ? labelOf(type) : message.type;
  if (refused !== undefined) {
    report.refuse(new Fault(refused.error, refused.offset || (walked?.offset ?? placeOf(report, refused))));
  } else if (message !== undefined) {
    report.summary = summaryOf(message);
    if (message.type === 'DATA') readContent(report, message.payload.content, message.payload.algorithm);
  }
}

/** Behind a fault nobody knows what is a credential. */
function withholdRest(report: Report, reader: FieldReader): void {
  const field = report.add(report.fields, 'the rest', reader.offset, reader.remaining);
  field.isSecret = true;
  field.note = 'not understood, and may hold a credential';
}

function labelOf(type: MutableField['value']): string {
  return typeof type === 'string' ? shortened(type, 24) : 'control message';
}

function placeOf(report: Report, { error }: Fault): number {
  const name = fieldOf(error)?.split(' ')[0]?.split('.').at(-1) ?? '';
  return (findField(report.fields, name) ?? findField(report.fields, 'payload'))?.offset ?? 0;
}

/** The content of DATA as it would be explained on its own. */
function readContent(report: Report, content: string | Uint8Array, algorithm: string): void {
  const field = report.fields
    .find(({ name }) => name === 'payload')
    ?.children.find(({ name }) => name === 'content');
  if (field === undefined || typeof content !== 'string') return;
  const { summary } = report;
  field.bytes = encodeUtf8(content);
  const fault = attempt(() => {
    const reader = new FieldReader(report, field.bytes as Uint8Array, field.children);
    report.summary = sentence(summary, readTextForm(reader, content));
  });
  if (fault !== undefined) report.refuse(new Fault(fault.error, field.offset));
  else if ((prefixOf(content) === undefined) !== (algorithm === 'NONE')) {
    field.note = `says ${algorithm} and ${prefixOf(content) === undefined ? 'begins with no prefix' : `begins with ${prefixOf(content)}`}`;
  }
}

// --- in one line

function summaryOf(message: Message): string {
  switch (message.type) {
    case 'HELLO': {
      const { algorithms, encodings, preferredEncoding, extensions, resume, agentId, shape } =
        message.payload;
      return clauses(
        resume && `takes session ${resume.sessionId} up again with ${count(resume.received, 'frame')} of it`,
        `offers codecs ${list(algorithms)}`,
        `vocabularies ${list(encodings)}`,
        preferredEncoding !== null && preferredEncoding !== encodings[0] && `prefers ${preferredEncoding}`,
        `extensions ${list(Object.keys(extensions))}`,
        agentId && `calls itself ${agentId}`,
        shape === 'nested' && "says so in the reference implementation's shape",
      );
    }
    case 'ACCEPT': {
      const { algorithms, encoding, extensions, resume } = message.payload;
      return clauses(
        resume?.recovered
          ? `session ${message.sessionId} goes on, ${count(resume.received, 'frame')} of it have arrived`
          : `session ${message.sessionId} is open`,
        resume?.reason && `the former one is lost (${resume.reason})`,
        `codecs ${list(algorithms)}`,
        `vocabulary ${encoding ?? 'none'}`,
        `extensions ${list(Object.keys(extensions))}`,
      );
    }
    case 'REJECT': {
      const { code, message: text, retryable, retryAfterMs } = message.payload;
      return clauses(
        `no session: ${code}`,
        text,
        retryable === true && 'another attempt may succeed',
        retryAfterMs !== undefined && `not before ${number(retryAfterMs / 1000)} s have passed`,
      );
    }
    case 'DATA':
      return `content coded as ${message.payload.algorithm}`;
    case 'PING':
      return 'are you there?';
    case 'PONG':
      return 'still here';
    case 'CLOSE':
      return clauses(`ends the session: ${message.payload.reason}`, message.payload.message);
    case 'AUTH':
      if ('token' in message.payload) return 'new credentials';
      return message.payload.expiresAt === null
        ? 'the credentials are good and do not end'
        : `the credentials are good until ${dateOf(message.payload.expiresAt)}`;
    case 'GOAWAY': {
      const { retryAfterMs, deadline } = message.payload;
      return clauses(
        `the server goes away at ${dateOf(deadline)}`,
        'no new requests',
        `come back after ${number(retryAfterMs / 1000)} s`,
      );
    }
    case 'UNKNOWN':
      return 'a message of a type that this version does not know and ignores';
  }
}
