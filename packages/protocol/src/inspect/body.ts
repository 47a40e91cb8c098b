import type { EncodingName } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import { decodeUtf8 } from '../base/text.js';
import { createBodyCoder } from '../codec/auto/coder.js';
import { BodyCodec } from '../codec/body.js';
import { decodeContextBody, describeContextBody } from '../codec/context/body.js';
import { NEWEST, NO_BASE, SLOT } from '../codec/context/state.js';
import type { LoadableCodec } from '../codec/load.js';
import { readAvp } from './avp.js';
import { showContent } from './content.js';
import type { FieldReader } from './field-reader.js';
import { readM2M } from './m2m.js';
import { Fault, walkThenDecode } from './report.js';
import { readTokenIds } from './token-ids.js';
import { byteCount, hex, number, sentence } from './wording.js';

/**
 * Message bodies without their frame: the same in link frames, bare frames and text forms. Each reader
 * explains everything that is left and returns a short phrase for the summary.
 */

export interface BodyContext {
  /** Vocabulary of token IDs. */
  readonly encoding: EncodingName | undefined;
  /** The body is one part of a reply, which may begin or end inside a character. */
  readonly isPart: boolean;
  /** The body is in a text form: content that is not text is refused. */
  readonly isTextForm?: boolean;
  /** Content length in bytes, as the link frame states it. */
  readonly originalLength: number | undefined;
}

type BodyReader = (reader: FieldReader, context: BodyContext) => string;

const READERS: Readonly<Record<BodyCodec, BodyReader>> = {
  [BodyCodec.PLAIN]: readPlain,
  [BodyCodec.TOKEN_NATIVE]: (reader, { encoding, isPart }) => readTokenIds(reader, encoding, isPart),
  [BodyCodec.M2M]: (reader, context) => readM2M(reader, decoderOf(reader, BodyCodec.M2M, context)),
  [BodyCodec.BROTLI]: readCompressed('Brotli stream', BodyCodec.BROTLI, 'BROTLI'),
  [BodyCodec.CONTEXT]: (reader, { isPart }) => readContextBody(reader, isPart),
  [BodyCodec.AVP]: (reader) => readAvp(reader),
  [BodyCodec.TOKEN]: readCompressed('abbreviated JSON', BodyCodec.TOKEN, 'TOKEN'),
  [BodyCodec.DICTIONARY]: readCompressed(
    'text with patterns as single bytes',
    BodyCodec.DICTIONARY,
    'DICTIONARY',
  ),
};

export const CODEC_NAMES: ReadonlyMap<BodyCodec, string> = new Map(
  Object.entries(BodyCodec).map(([name, codec]) => [codec, name]),
);

/** Explains a whole body: everything that `reader` has left. */
export function readBody(reader: FieldReader, codec: BodyCodec, context: BodyContext): string {
  reader.report.body = reader.remaining;
  reader.report.codec ??= CODEC_NAMES.get(codec);
  return READERS[codec](reader, context);
}

function readPlain(reader: FieldReader, { isPart }: BodyContext): string {
  const content = reader.take('content', reader.remaining);
  reader.note('not encoded');
  showContent(reader.report, content, isPart);
  return byteCount(content.length);
}

/** A codec whose bytes mean nothing to people until they are decoded. */
function readCompressed(name: string, codec: BodyCodec, loads: LoadableCodec): BodyReader {
  return (reader, context) => {
    const { offset, remaining } = reader;
    const decode = decoderOf(reader, codec, context);
    reader.take(name, remaining);
    const content = reader.checkLoaded(loads, decode, offset);
    if (content === undefined) return byteCount(remaining);
    if (context.isTextForm) reader.check(() => decodeUtf8(content), offset);
    reader.note(`${byteCount(content.length)} when decoded`);
    showContent(reader.report, content, context.isPart);
    return `${byteCount(remaining)} for ${number(content.length)}`;
  };
}

/** The field of a link frame that states the content length. */
export const CONTENT_LENGTH = 'content length';

/** Decodes everything that is left, the way a session does. */
function decoderOf(reader: FieldReader, codec: BodyCodec, { originalLength }: BodyContext): () => Uint8Array {
  const { rest, report } = reader;
  const coder = createBodyCoder({
    algorithms: [],
    encoding: undefined,
    limits: report.limits,
    security: undefined,
    yield: async () => {},
    // Only link frames state a length; a bare frame belongs to no session.
    isBounded: originalLength !== undefined,
  });
  return () => {
    const body = { codec, bytes: rest, originalLength, secret: false, metadata: undefined, charge: 0 };
    try {
      return coder.decode(body);
    } catch (error) {
      // The content does not match the length stated before the body, so the fault is there.
      const stated =
        error instanceof ProtocolError && error.code === 'bad_frame'
          ? reader.locate(CONTENT_LENGTH)
          : undefined;
      throw stated === undefined ? error : new Fault(error as ProtocolError, stated);
    }
  };
}

// --- bodies coded against an earlier message of the session

/** Shows which bytes come from the earlier message and which are new; only the session knows the content. */
function readContextBody(reader: FieldReader, isPart: boolean): string {
  const { rest, offset, report } = reader;
  const { prefix, suffix, length } = walkThenDecode(
    () => walkContextBody(reader, rest, isPart),
    () => describeContextBody(rest, isPart),
    offset,
  );
  const { base } = decodeContextBody(rest, isPart);
  report.content = length;
  if (report.options.decoded !== undefined) showContent(report, report.options.decoded, isPart);
  return sentence(
    base === NO_BASE ? 'repeats nothing' : `repeats ${byteCount(prefix + suffix)} of ${baseName(base)}`,
    report.content !== undefined && `${byteCount(rest.length)} for ${number(report.content)}`,
  );
}

function walkContextBody(reader: FieldReader, rest: Uint8Array, isPart: boolean): void {
  const start = reader.offset;
  const head = reader.varint('base');
  // Report a damaged head before reading anything that depends on it.
  const body = reader.check(() => decodeContextBody(rest, isPart), start);
  const middle = body.compressed ? 'the middle is zstd' : 'the middle is not compressed';
  reader.annotate(head, sentence(body.base === NO_BASE ? 'none' : baseName(body.base), middle));
  if (body.base !== NO_BASE) {
    reader.annotate(reader.varint('prefix'), 'bytes copied from the beginning of the base');
    reader.annotate(reader.varint('suffix'), 'bytes copied from its end');
  }
  if (body.checksum !== undefined) reader.annotate(hex(reader.u32('CRC-32'), 8), 'of the whole message');
  reader.take('middle', reader.remaining);
  reader.note('new bytes between prefix and suffix');
}

function baseName(base: number): string {
  if (base === SLOT) return 'the previous part';
  return base === NEWEST ? 'the previous message' : `the message ${base - NEWEST + 1} before`;
}
