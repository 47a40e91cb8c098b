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
import { catchFault, type Report, walkThenDecode } from './report.js';
import { byteCount, hex, list, number, sentence } from './wording.js';

const NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries(LinkKind).map(([name, kind]) => [kind, name.toLowerCase()]),
);

/** The meaning of each kind. */
const MEANINGS: Readonly<Record<LinkKind, string>> = {
  [LinkKind.MESSAGE]: 'a one-way message',
  [LinkKind.REQUEST]: 'opens a stream and expects a reply',
  [LinkKind.RESPONSE]: 'the whole reply; closes the stream',
  [LinkKind.CHUNK]: 'one part of the reply',
  [LinkKind.END]: 'the reply is complete',
  [LinkKind.ERROR]: 'the request failed',
  [LinkKind.CANCEL]: 'the reply is no longer wanted',
  [LinkKind.ALIAS]: 'a number that stands for a name from now on',
  [LinkKind.ACK]: 'acknowledges frames',
  [LinkKind.CREDIT]: 'allows the receiver to send more',
};

export function explainLink(report: Report, bytes: Uint8Array): void {
  report.kind = 'link';
  const reader = new FieldReader(report, bytes);
  const kind = (reader.u8('kind') & 0x0f) as LinkKind;
  report.label = NAMES.get(kind) ?? 'link frame';
  reader.annotate(NAMES.get(kind) ?? hex(bytes[0] as number), MEANINGS[kind]);
  // Report an unknown kind before reading anything else.
  if (!(kind in MEANINGS)) reader.check(() => decodeLinkFrame(bytes), 0);

  if (kind === LinkKind.ACK) return explainAck(reader);
  if (kind === LinkKind.ALIAS) return explainAlias(reader);
  report.streamId = reader.varint(
    'stream',
    kind === LinkKind.CREDIT ? Number.MAX_SAFE_INTEGER : MAX_STREAM_ID,
  );
  reader.annotate(report.streamId, streamNote(report.streamId));
  if (kind !== LinkKind.CREDIT && (kind === LinkKind.MESSAGE) !== (report.streamId === 0)) {
    reader.check(() => decodeLinkFrame(bytes), 1);
    reader.fail('bad_frame', 'stream 0 is for one-way messages, and only for them', 1);
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
      report.summary = 'cancels the request: the reply is no longer wanted';
  }
}

function streamNote(streamId: number): string {
  if (streamId === 0) return 'one-way messages';
  return `opened by the ${streamId % 2 === 1 ? 'client' : 'server'}`;
}

// --- kinds without a body

function explainAck(reader: FieldReader): void {
  const count = reader.varint('count');
  reader.annotate(count, 'frames of the session received so far');
  reader.expectEnd('an ack frame');
  reader.report.summary = `${number(count)} frame${count === 1 ? '' : 's'} received so far`;
}

function explainAlias(reader: FieldReader): void {
  const alias = reader.varint('alias', MAX_STREAM_ID);
  reader.annotate(alias, `one of at most ${MAX_ALIASES} in each direction`);
  const { rest, offset } = reader;
  reader.check(() => new AliasReader().handleAlias(alias, rest), offset);
  const name = reader.text('name', rest.length);
  reader.report.summary = `${alias} stands for ${name} from now on`;
}

function explainCredit(reader: FieldReader): void {
  const { report } = reader;
  const limit = reader.varint('limit');
  reader.annotate(limit, 'bytes that may be sent on the stream in total');
  reader.expectEnd('a credit frame');
  const stream = report.streamId === 0 ? 'in one-way messages' : `on stream ${report.streamId}`;
  report.summary = `allows ${byteCount(limit)} in total ${stream}`;
}

function explainEnd(reader: FieldReader): void {
  if (reader.remaining > 0) {
    reader.annotate(hex(reader.u32('CRC-32'), 8), 'of all parts of the reply coded in context');
  }
  reader.expectEnd('an end frame');
  reader.report.summary = 'the reply is complete';
}

function explainFailure(reader: FieldReader): void {
  const { report, rest, offset } = reader;
  const { maxJsonDepth } = report.limits;
  const error = reader.group('failure', () =>
    walkThenDecode(
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
  ['code', 'error code, for programs'],
  ['message', 'error message, for people'],
  ['retryable', 'whether a retry may succeed'],
  ['retry_after_ms', 'milliseconds to wait before a retry'],
  ['data', 'JSON added by the application'],
]);
const failureNote = (path: readonly string[]) => FAILURE_NOTES.get(path.join('.'));

// --- kinds with a body

function explainBody(reader: FieldReader, bytes: Uint8Array): void {
  const { report } = reader;
  const { continues, encoding } = report.options;
  const at = reader.offset;
  const third = reader.u8('codec and flags');
  const codec = (third & 0x0f) as BodyCodec;
  report.codec = CODEC_NAMES.get(codec);
  reader.annotate(
    sentence(CODEC_NAMES.get(codec) ?? `codec ${codec}`, flagNames(third)),
    'how the body is encoded',
  );
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

/** Reads what the first frame of a body states about it. */
function readHead(reader: FieldReader, frame: LinkFrame): Stated {
  const { report, offset } = reader;
  if ((frame.flags & LinkFlag.ADDRESSED) !== 0) {
    const alias = reader.varint('alias');
    reader.annotate(alias, 'number of the name of its sender or receiver');
  }
  const total = (frame.flags & LinkFlag.MORE) !== 0 ? reader.varint('body length') : undefined;
  reader.annotate(
    total,
    total === undefined ? undefined : 'bytes of the whole body; this frame has the beginning',
  );
  const original = isSized(frame.codec) ? reader.varint(CONTENT_LENGTH) : undefined;
  if (original !== undefined) reader.annotate(original, 'bytes when decoded');
  if ((frame.flags & LinkFlag.META) !== 0) readMetadata(reader, frame);
  // Checks the sizes against the limits, and that the first fragment is not longer than the body.
  reader.check(() => new Assembler(report.limits, ANY_AGENT).add(frame), offset);
  return { total, original };
}

/** A single frame does not show which aliases were announced before it, so all are accepted. */
const ANY_AGENT = { nameOf: () => '' };

function readMetadata(reader: FieldReader, frame: LinkFrame): void {
  const { report } = reader;
  const length = reader.varint('metadata length');
  reader.check(() => new Assembler(report.limits, ANY_AGENT).add(frame), reader.offset);
  const { offset } = reader;
  const { maxJsonDepth } = report.limits;
  reader.within('metadata', length, (inner) => {
    const fault = catchFault(() =>
      walkThenDecode(
        () => readMsgpackMap(inner, maxJsonDepth),
        () => decodeMetadata(reader.bytes.subarray(offset, offset + length), maxJsonDepth),
        offset,
      ),
    );
    if (fault === undefined) return;
    // The unreadable part may be a credential.
    reader.markSecret();
    throw fault;
  });
}

/** Reads a fragment of a body, which cannot be decoded on its own. */
function readFragment(reader: FieldReader, frame: LinkFrame, { received, total }: Continuation): string {
  const { remaining, report } = reader;
  report.body = remaining;
  if (report.options.decoded !== undefined) showContent(report, report.options.decoded, false);
  reader.take(received === 0 ? 'beginning of the body' : 'continuation of the body', remaining);
  const until = received + remaining;
  reader.note(`bytes ${number(received)} to ${number(until)} of ${number(total)}`);
  return sentence(
    report.excerpt,
    `${CODEC_NAMES.get(frame.codec)}: ${byteCount(remaining)}, ${number(until)} of ${number(total)} so far`,
  );
}
