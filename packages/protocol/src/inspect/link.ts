import { type BodyCodec, isSized } from '../codec/body.js';
import { decodeMetadata } from '../endpoint/messages/metadata.js';
import { AliasReader, MAX_ALIASES } from '../link/addressing.js';
import { decodeFailure } from '../link/failure.js';
import {
  decodeLinkFrame,
  isBodyKind,
  LinkFlag,
  type LinkFrame,
  LinkKind,
  MAX_STREAM_ID,
} from '../link/frame.js';
import { Assembler } from '../link/reassembly.js';
import { CODEC_NAMES, CONTENT_LENGTH, readBody } from './body.js';
import { showContent } from './content.js';
import type { Continuation } from './explanation.js';
import { FieldReader } from './field-reader.js';
import { readMsgpackMap } from './msgpack-fields.js';
import { attempt, judged, type Report } from './report.js';
import { bytes as bytesPhrase, hex, list, number, sentence } from './wording.js';

/** Link frames of every kind, and the bodies within them. */

const NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries(LinkKind).map(([name, kind]) => [kind, name.toLowerCase()]),
);

/** What each kind says to whoever receives it. */
const MEANINGS: Readonly<Record<LinkKind, string>> = {
  [LinkKind.MESSAGE]: 'a message that wants no reply',
  [LinkKind.REQUEST]: 'opens a stream and asks for a reply',
  [LinkKind.RESPONSE]: 'the whole reply, closes the stream',
  [LinkKind.CHUNK]: 'one part of the reply',
  [LinkKind.END]: 'the reply is complete',
  [LinkKind.ERROR]: 'the request failed',
  [LinkKind.CANCEL]: 'the reply is not wanted any more',
  [LinkKind.ALIAS]: 'a number that means an agent from here on',
  [LinkKind.ACK]: 'so many frames have arrived',
  [LinkKind.CREDIT]: 'so much may be sent',
};

export function explainLink(report: Report, bytes: Uint8Array): void {
  report.kind = 'link';
  const reader = new FieldReader(report, bytes);
  const kind = (reader.u8('kind') & 0x0f) as LinkKind;
  report.label = NAMES.get(kind) ?? 'link frame';
  reader.say(NAMES.get(kind) ?? hex(bytes[0] as number), MEANINGS[kind]);
  // A kind that is not known is refused before anything else is read.
  if (!(kind in MEANINGS)) reader.check(() => decodeLinkFrame(bytes), 0);

  if (kind === LinkKind.ACK) return explainAck(reader);
  if (kind === LinkKind.ALIAS) return explainAlias(reader);
  report.streamId = reader.varint(
    'stream',
    kind === LinkKind.CREDIT ? Number.MAX_SAFE_INTEGER : MAX_STREAM_ID,
  );
  reader.say(report.streamId, streamNote(report.streamId));
  if (kind !== LinkKind.CREDIT && (kind === LinkKind.MESSAGE) !== (report.streamId === 0)) {
    reader.check(() => decodeLinkFrame(bytes), 1);
    reader.fail('bad_frame', 'stream 0 carries one-way messages, and nothing else does', 1);
  }
  if (isBodyKind(kind)) return explainBody(reader, bytes);
  switch (kind) {
    case LinkKind.CREDIT:
      return explainCredit(reader);
    case LinkKind.ERROR:
      return explainFailure(reader);
    case LinkKind.END:
      return explainEnd(reader);
    default:
      reader.expectEnd('a cancel frame');
      report.summary = 'stop, the reply is not wanted any more';
  }
}

function streamNote(streamId: number): string {
  if (streamId === 0) return 'one-way messages';
  return `opened by the ${streamId % 2 === 1 ? 'client' : 'server'}`;
}

// --- kinds without a body

function explainAck(reader: FieldReader): void {
  const count = reader.varint('count');
  reader.say(count, 'frames of the session that have arrived, in all');
  reader.expectEnd('an ack frame');
  reader.report.summary = `${number(count)} frame${count === 1 ? ' has' : 's have'} arrived so far`;
}

function explainAlias(reader: FieldReader): void {
  const alias = reader.varint('alias', MAX_STREAM_ID);
  reader.say(alias, `one of ${MAX_ALIASES} that a direction has`);
  const { rest, offset } = reader;
  reader.check(() => new AliasReader().handleAlias(alias, rest), offset);
  const name = reader.text('agent', rest.length);
  reader.report.summary = `${alias} is agent ${name} from here on`;
}

function explainCredit(reader: FieldReader): void {
  const { report } = reader;
  const limit = reader.varint('limit');
  reader.say(limit, 'bytes that may be sent on the stream, in all');
  reader.expectEnd('a credit frame');
  const stream = report.streamId === 0 ? 'in one-way messages' : `on stream ${report.streamId}`;
  report.summary = `${bytesPhrase(limit)} in all may be sent ${stream}`;
}

function explainEnd(reader: FieldReader): void {
  if (reader.remaining > 0) {
    reader.say(hex(reader.u32('CRC-32'), 8), 'of all parts of the reply that are coded in context');
  }
  reader.expectEnd('an end frame');
  reader.report.summary = 'the reply is complete';
}

function explainFailure(reader: FieldReader): void {
  const { report, rest, offset } = reader;
  const { maxJsonDepth } = report.limits;
  const error = reader.group('failure', () =>
    judged(
      () => readMsgpackMap(reader, maxJsonDepth, failureNote),
      () => decodeFailure(rest, maxJsonDepth),
      offset,
    ),
  );
  report.summary = sentence(
    `the request failed: ${error.code}`,
    error.message === error.code ? '' : error.message,
  );
}

const FAILURE_NOTES = new Map([
  ['code', 'for programs'],
  ['message', 'for people'],
  ['retryable', 'whether trying again may help'],
  ['retry_after_ms', 'milliseconds to wait before'],
  ['data', "the application's own, as JSON"],
]);
const failureNote = (path: readonly string[]) => FAILURE_NOTES.get(path.join('.'));

// --- kinds with a body

function explainBody(reader: FieldReader, bytes: Uint8Array): void {
  const { report } = reader;
  const { continues, encoding } = report.options;
  const at = reader.offset;
  const third = reader.u8('codec and flags');
  const codec = (third & 0x0f) as BodyCodec;
  reader.say(sentence(CODEC_NAMES.get(codec) ?? `codec ${codec}`, flagNames(third)), 'how the body is coded');
  const frame = reader.check(() => decodeLinkFrame(bytes), at);

  const stated = continues === undefined ? readHead(reader, frame) : undefined;
  const more = (frame.flags & LinkFlag.MORE) !== 0;
  if (continues !== undefined || more) {
    report.summary = readFragment(reader, frame, continues ?? { received: 0, total: stated?.total ?? 0 });
    return;
  }
  const phrase = readBody(reader, codec, {
    encoding,
    isPart: frame.kind === LinkKind.CHUNK,
    originalLength: stated?.original,
  });
  report.summary = sentence(report.excerpt, `${CODEC_NAMES.get(codec)}: ${phrase}`);
}

function flagNames(third: number): string {
  return list(
    Object.entries(LinkFlag)
      .filter(([, flag]) => (third & flag) !== 0)
      .map(([name]) => name),
    '',
  );
}

interface Stated {
  readonly total: number | undefined;
  readonly original: number | undefined;
}

/** What the first frame of a body says about it. */
function readHead(reader: FieldReader, frame: LinkFrame): Stated {
  const { report, offset } = reader;
  if ((frame.flags & LinkFlag.ADDRESSED) !== 0) {
    const alias = reader.varint('agent');
    reader.say(alias, 'the agent to whom or from whom it is, by its number');
  }
  const total = (frame.flags & LinkFlag.MORE) !== 0 ? reader.varint('body length') : undefined;
  reader.say(
    total,
    total === undefined ? undefined : 'bytes of the whole body, of which this is the beginning',
  );
  const original = isSized(frame.codec) ? reader.varint(CONTENT_LENGTH) : undefined;
  if (original !== undefined) reader.say(original, 'bytes when decoded');
  if ((frame.flags & LinkFlag.META) !== 0) readMetadata(reader, frame);
  // Whether the sizes are within the limits, and the first part is no more than the whole.
  reader.check(() => new Assembler(report.limits, ANY_AGENT).add(frame), offset);
  return { total, original };
}

/** One frame alone does not tell which agents were announced before. */
const ANY_AGENT = { nameOf: () => '' };

function readMetadata(reader: FieldReader, frame: LinkFrame): void {
  const { report } = reader;
  const length = reader.varint('metadata length');
  reader.check(() => new Assembler(report.limits, ANY_AGENT).add(frame), reader.offset);
  const { offset } = reader;
  const { maxJsonDepth } = report.limits;
  reader.within('metadata', length, (inner) => {
    const fault = attempt(() =>
      judged(
        () => readMsgpackMap(inner, maxJsonDepth),
        () => decodeMetadata(reader.bytes.subarray(offset, offset + length), maxJsonDepth),
        offset,
      ),
    );
    if (fault === undefined) return;
    // What could not be read may be a credential.
    reader.withhold();
    throw fault;
  });
}

/** A piece of a body, which cannot be decoded on its own. */
function readFragment(reader: FieldReader, frame: LinkFrame, { received, total }: Continuation): string {
  const { remaining, report } = reader;
  report.body = remaining;
  if (report.options.decoded !== undefined) showContent(report, report.options.decoded, false);
  reader.take(received === 0 ? 'beginning of the body' : 'more of the body', remaining);
  const until = received + remaining;
  reader.say(undefined, `bytes ${number(received)} to ${number(until)} of ${number(total)}`);
  return sentence(
    report.excerpt,
    `${CODEC_NAMES.get(frame.codec)}: ${bytesPhrase(remaining)}, ${number(until)} of ${number(total)} are there`,
  );
}
