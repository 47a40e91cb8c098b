import type { EncodingName } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import { decodeUtf8 } from '../base/text.js';
import { createBodyCoder } from '../codec/auto/coder.js';
import { BodyCodec } from '../codec/body.js';
import type { LoadableCodec } from '../codec/load.js';
import { readAvp } from './avp.js';
import { showContent } from './content.js';
import { readContextBody } from './context.js';
import type { FieldReader } from './field-reader.js';
import { readM2M } from './m2m.js';
import { Fault } from './report.js';
import { readTokenIds } from './token-ids.js';
import { bytes as bytesPhrase, number } from './wording.js';

/**
 * Bodies: what a message consists of once its frame is taken off, the same in link frames, bare frames
 * and text forms. Each reader explains everything that is left and says it in a few words.
 */

export interface BodyContext {
  /** Vocabulary of token IDs. */
  readonly encoding: EncodingName | undefined;
  /** One part of a reply, which may begin or end inside a character. */
  readonly isPart: boolean;
  /** In a text form, which stands for text: content that is none is refused. */
  readonly isTextForm?: boolean;
  /** Bytes of content that the link frame states. */
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

/** Codecs by name, for people. */
export const CODEC_NAMES: ReadonlyMap<BodyCodec, string> = new Map(
  Object.entries(BodyCodec).map(([name, codec]) => [codec, name]),
);

/** Explains a whole body, which is everything that `reader` has left. */
export function readBody(reader: FieldReader, codec: BodyCodec, context: BodyContext): string {
  reader.report.body = reader.remaining;
  return READERS[codec](reader, context);
}

function readPlain(reader: FieldReader, { isPart }: BodyContext): string {
  const content = reader.take('content', reader.remaining);
  reader.say(undefined, 'as it is');
  showContent(reader.report, content, isPart);
  return bytesPhrase(content.length);
}

/** A codec whose bytes say nothing to people until they are decoded. */
function readCompressed(name: string, codec: BodyCodec, loads: LoadableCodec): BodyReader {
  return (reader, context) => {
    const { offset, remaining } = reader;
    const decode = decoderOf(reader, codec, context);
    reader.take(name, remaining);
    const content = reader.checkLoaded(loads, decode, offset);
    if (content === undefined) return bytesPhrase(remaining);
    if (context.isTextForm) reader.check(() => decodeUtf8(content), offset);
    reader.say(undefined, `${bytesPhrase(content.length)} when decoded`);
    showContent(reader.report, content, context.isPart);
    return `${bytesPhrase(remaining)} for ${number(content.length)}`;
  };
}

/** Decodes everything that is left as a session does. */
function decoderOf(reader: FieldReader, codec: BodyCodec, { originalLength }: BodyContext): () => Uint8Array {
  const { rest, report } = reader;
  const coder = createBodyCoder({
    algorithms: [],
    encoding: undefined,
    limits: report.limits,
    security: undefined,
    yield: async () => {},
    // A frame by itself is in no session, which a length that is stated shows.
    isBounded: originalLength !== undefined,
  });
  return () => {
    const body = { codec, bytes: rest, originalLength, secret: false, metadata: undefined, charge: 0 };
    try {
      return coder.decode(body);
    } catch (error) {
      // The content is not what the frame says of it, in front of the body.
      const stated =
        error instanceof ProtocolError && error.code === 'bad_frame'
          ? reader.locate(CONTENT_LENGTH)
          : undefined;
      throw stated === undefined ? error : new Fault(error as ProtocolError, stated);
    }
  };
}

/** The field of a link frame that states it. */
export const CONTENT_LENGTH = 'content length';
