import { ENCODING_IDS, EncodingName, Prefix, Subprotocol } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import { AVP_FIRST_BYTE, FrameKind, frameKind, prefixOf } from '../base/frame-kind.js';
import { decodeUtf8 } from '../base/text.js';
import { BodyCodec } from '../codec/body.js';
import { readBody } from './body.js';
import { assertUtf8Form, validUtf8Length } from './content.js';
import { explainControl, explainControlJson, looksLikeEnvelope } from './control.js';
import type { ExplainOptions, Explanation } from './explanation.js';
import { FieldReader } from './field-reader.js';
import { explainLink } from './link.js';
import { catchFault, Fault, Report } from './report.js';
import { PREFIX_LABELS, readTextForm } from './text-form.js';
import { hex, sentence } from './wording.js';

/**
 * Explains any frame of a session: the meaning of each byte, or of a damaged frame, of each byte before
 * the fault. Nothing is sent, stored or decrypted. Content is decompressed, within the limits, only to
 * check it and to show a preview if the caller asked for one.
 *
 * Token IDs, compressed text and tensors are explained if their vocabularies and codecs are loaded;
 * otherwise `missing` lists them.
 *
 * @param frame bytes of a binary WebSocket message, or the string of a text message.
 * @throws {ProtocolError} `invalid_option` if a limit is invalid. The content of a frame never makes it throw.
 */
export function explainFrame(frame: Uint8Array | string, options: ExplainOptions = {}): Explanation {
  const report = new Report(options);
  const isText = typeof frame === 'string';
  const bytes = isText ? new TextEncoder().encode(frame) : frame;
  const fault = catchFault(() => {
    assertSize(report, bytes);
    if (isText) explainText(report, frame, bytes);
    else explainBinary(report, bytes);
  });
  if (fault !== undefined) report.refuse(fault);
  return report.finish(bytes, isText ? 'text' : 'binary');
}

/** A session refuses larger frames unread. */
function assertSize({ limits }: Report, bytes: Uint8Array): void {
  const max = bytes[0] === AVP_FIRST_BYTE ? limits.maxTransferSize : limits.maxMessageSize;
  if (bytes.length <= max) return;
  throw new ProtocolError('message_too_large', `the frame has ${bytes.length} bytes, the limit is ${max}`);
}

function explainBinary(report: Report, bytes: Uint8Array): void {
  switch (frameKind(bytes)) {
    case FrameKind.CONTROL:
      return explainControl(report, bytes);
    case FrameKind.LINK:
      return explainLink(report, bytes);
    case FrameKind.TOKEN_NATIVE:
      return explainTokenNative(report, bytes);
    case FrameKind.AVP:
      report.kind = 'avp';
      report.label = 'AVP';
      report.summary = readBody(new FieldReader(report, bytes), BodyCodec.AVP, ALONE);
      return;
    case FrameKind.TAGGED:
      return startsWith(bytes, Prefix.M2M) ? explainM2M(report, bytes) : explainTagged(report, bytes);
  }
}

const ALONE = { encoding: undefined, isPart: false, originalLength: undefined };

function explainTokenNative(report: Report, bytes: Uint8Array): void {
  report.kind = 'token-native';
  report.label = 'TokenNative';
  const reader = new FieldReader(report, bytes);
  const id = reader.u8('vocabulary');
  const encoding = Object.values(EncodingName).find((name) => ENCODING_IDS[name] === id);
  reader.annotate(encoding ?? hex(id), 'vocabulary of the token IDs');
  describe(report, readBody(reader, BodyCodec.TOKEN_NATIVE, { ...ALONE, encoding }));
}

function explainM2M(report: Report, bytes: Uint8Array): void {
  report.kind = 'm2m';
  report.label = 'M2M';
  const reader = new FieldReader(report, bytes);
  reader.text('prefix', Prefix.M2M.length);
  reader.note('an M2M v1 frame');
  describe(report, readBody(reader, BodyCodec.M2M, ALONE));
}

/** A text form sent as a binary message. */
function explainTagged(report: Report, bytes: Uint8Array): void {
  report.kind = 'text-form';
  report.label = 'text form';
  const invalid = catchFault(() => void decodeUtf8(bytes));
  if (invalid !== undefined) throw new Fault(invalid.error, validUtf8Length(bytes));
  const text = decodeUtf8(bytes);
  if (prefixOf(text) === undefined) {
    throw new ProtocolError('unknown_prefix', 'a binary frame that begins with # must have a known prefix');
  }
  explainTextForm(report, text, bytes);
}

function explainText(report: Report, text: string, bytes: Uint8Array): void {
  const { subprotocol } = report.options;
  if (subprotocol === Subprotocol.JSON || (subprotocol === undefined && looksLikeEnvelope(text))) {
    return explainControlJson(report, text, bytes);
  }
  report.kind = prefixOf(text) === undefined ? 'content' : 'text-form';
  report.label = 'text';
  assertUtf8Form(text);
  explainTextForm(report, text, bytes);
}

function explainTextForm(report: Report, text: string, bytes: Uint8Array): void {
  const prefix = prefixOf(text);
  if (prefix !== undefined) report.label = `${PREFIX_LABELS[prefix]} text`;
  if (prefix === Prefix.M2M) report.kind = 'm2m';
  if (prefix === Prefix.TOKEN_NATIVE) report.kind = 'token-native';
  const phrase = readTextForm(new FieldReader(report, bytes), text);
  describe(report, prefix === undefined ? `plain content, ${phrase}` : phrase);
}

function describe(report: Report, phrase: string): void {
  report.summary = sentence(report.excerpt, phrase);
}

function startsWith(bytes: Uint8Array, prefix: string): boolean {
  return (
    bytes.length >= prefix.length && [...prefix].every((character, i) => bytes[i] === character.charCodeAt(0))
  );
}
