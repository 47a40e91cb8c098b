import { accepted, fail, holds, judged, type Outcome, outcomeOf, refused, same, VERDICTS } from './expect.js';
import type { Family } from './family.js';
import type { Fields } from './fields.js';
import { headerIsTrue, namedFields, sameHeader, schemaByte } from './m2m-header.js';
import { sameFrame } from './m2m-layout.js';
import {
  decodeM2M,
  encodeBase64,
  encodeM2M,
  encodeM2MText,
  loadCodecs,
  type M2MEncodeOptions,
  type M2MMessage,
  readM2MHeader,
} from './subject.js';

/** M2M v1 without security: `encode` (JSON to frame), `decode` (valid and invalid frames), `constructed`. */
export const m2mFrame: Family = {
  file: 'm2m-frame.json',
  head: ['_meta'],
  sections: [
    { name: 'encode', check: checkEncode },
    { name: 'decode', check: checkDecode },
    { name: 'constructed', check: checkConstructed },
  ],
  prepare: () => loadCodecs(['M2M']),
};

const ENCODE_VERDICTS = ['byte-exact', 'must-error', 'either', 'refuse-or-consistent'] as const;
const CONSTRUCTORS = ['request', 'response', 'auto'] as const;

const PREFIX = '#M2M|1|';
const PREFIX_LENGTH = PREFIX.length;
const SCHEMA_OFFSET = PREFIX_LENGTH + 2;
/** JSON of at least this many bytes is compressed. */
const COMPRESSION_THRESHOLD = 100;

/** The schema option that corresponds to a constructor of the reference. */
export function schemaOption(given: Fields): M2MEncodeOptions {
  const named = given.word('constructor', CONSTRUCTORS);
  return named === 'auto' ? {} : { schema: named };
}

/** The text form of a binary frame. */
export function textForm(frame: Uint8Array): string {
  return PREFIX + encodeBase64(frame.slice(PREFIX_LENGTH));
}

function checkEncode(given: Fields): void {
  const verdict = encodeVerdict(given);
  const options = schemaOption(given);
  const json = given.text('input_json');
  const frame = outcomeOf(() => encodeM2M(json, options));
  const text = outcomeOf(() => encodeM2MText(json, options));
  same(text.accepted, frame.accepted, 'acceptance of the text form');
  if (!frame.accepted || !text.accepted) {
    if (verdict === 'byte-exact' && !frame.accepted) fail(`refused: ${frame.code}, ${frame.message}`);
    return;
  }
  holds(verdict !== 'must-error', 'the message was encoded');
  same(text.value, textForm(frame.value), 'text form');

  const message = readsBack(frame.value, json);
  same(accepted(() => decodeM2M(text.value), 'our own text form').json, json, 'text form read back');
  headerIsTrue(message.header, JSON.parse(json));
  if (verdict !== 'byte-exact') return;
  const expected = given.hex('encode_hex');
  sameFrame(frame.value, expected, json);
  // Our decoder must also read the reference's bytes, in both forms.
  readsBack(expected, json);
  same(
    accepted(() => decodeM2M(given.text('encode_string')), 'encode_string').json,
    json,
    'encode_string read back',
  );
  sameHeader(message.header, given.object('encoded_fields'));
}

function encodeVerdict(given: Fields): (typeof ENCODE_VERDICTS)[number] {
  if (given.has('verdict')) return given.word('verdict', ENCODE_VERDICTS);
  const conformance = given.text('conformance');
  if (conformance.startsWith('reference-bug')) return 'refuse-or-consistent';
  return given.word('conformance', ['byte-exact', 'must-error']);
}

/** Decodes a frame that must contain `json`, and reads its header separately. */
function readsBack(frame: Uint8Array, json: string): M2MMessage {
  const message = accepted(() => decodeM2M(frame), 'the frame');
  same(message.json, json, 'payload read back');
  same(Buffer.from(message.bytes).toString('utf8'), json, 'payload bytes read back');
  same(
    accepted(() => readM2MHeader(frame), 'the header'),
    message.header,
    'header read alone',
  );
  return message;
}

function checkDecode(given: Fields): void {
  const verdict = given.word('verdict', VERDICTS);
  const text = given.maybe('text', 'frame_string');
  const frame = text ?? given.hex('frame_hex');
  if (given.has('frame_bytes') && text === undefined)
    same(frame.length, given.number('frame_bytes'), 'frame_bytes');
  const outcome = outcomeOf(() => decodeM2M(frame));
  judged(outcome, verdict, 'the frame');
  // Reading the header must be safe for any bytes, as a router does it.
  outcomeOf(() => readM2MHeader(frame));
  if (typeof frame !== 'string' && frame.length > PREFIX_LENGTH) checkTextForm(frame, outcome);
  if (!outcome.accepted) return;

  const { header, json, bytes } = outcome.value;
  same(
    accepted(() => readM2MHeader(frame), 'the header'),
    header,
    'header read alone',
  );
  const absent = given.maybe('texts', 'absent_if_accepted') ?? [];
  const fields = namedFields(header);
  for (const name of absent) same(fields[name] ?? null, null, `${name}, which must be absent`);
  const decompressed = given.maybe('number', 'decompressed_bytes');
  if (decompressed !== undefined) same(bytes.length, decompressed, 'decompressed_bytes');
  const reference = given.maybe('object', 'reference_decode');
  const payload = reference?.maybe('text', 'payload');
  if (payload !== undefined) same(json, payload, 'payload');
  const expected = reference?.maybe('object', 'fields');
  // The reference's header fields are binding if every decoder must accept the frame.
  if (expected !== undefined && verdict === 'accept') sameHeader(header, expected, absent);
}

/** The text form of a frame is accepted if and only if the frame is. */
function checkTextForm(frame: Uint8Array, binary: Outcome<M2MMessage>): void {
  if (Buffer.from(frame.subarray(0, PREFIX_LENGTH)).toString('latin1') !== PREFIX) return;
  const form = textForm(frame);
  if (binary.accepted)
    same(accepted(() => decodeM2M(form), 'the text form').json, binary.value.json, 'text form');
  else refused(() => decodeM2M(form), 'the text form of a refused frame');
}

/**
 * A schema that is selected only by its name: the reference's bytes in both directions, the document's schema
 * bytes.
 */
function checkConstructed(given: Fields): void {
  const reference = given.hex('encode_hex');
  const json = given.text('input_json');
  const { header } = readsBack(reference, json);
  same(
    accepted(() => decodeM2M(given.text('encode_string')), 'encode_string').json,
    json,
    'encode_string read back',
  );
  sameHeader(header, given.object('encoded_fields'));
  same(reference[SCHEMA_OFFSET], given.number('schema_override'), 'schema byte of the vector');

  const frame = accepted(() => encodeM2M(json, { schema: header.schema }), 'the message');
  readsBack(frame, json);
  // A vector that breaks the compression rule is read, but not written.
  if (header.compressed !== Buffer.byteLength(json) >= COMPRESSION_THRESHOLD) return;
  const expected = reference.slice();
  expected[SCHEMA_OFFSET] = schemaByte(header.schema);
  sameFrame(frame, expected, json);
}
