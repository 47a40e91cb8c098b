import {
  algorithmOf,
  BodyCodec,
  type BodyToSend,
  type CodedBody,
  type LaterCodec,
  type Negotiated,
  type ReceivedBody,
} from '@parlance/protocol';
import { type BodyCoder, decodeMetadata, encodeMetadata, REDELIVERED } from '@parlance/protocol/internal';

/** Bodies that another session can read are relayed unchanged; others are coded again. */

/**
 * Whether a body that was coded for one session can be read by another. Token IDs are valid in their encoding only;
 * every session reads AVP frames and empty plain bodies.
 *
 * @param awaited codecs that the other session's client has not loaded yet.
 */
export function isSharedCoding(
  { codec, bytes }: Pick<ReceivedBody, 'codec' | 'bytes'>,
  from: Pick<Negotiated, 'encoding'>,
  to: Pick<Negotiated, 'algorithms' | 'encoding'>,
  awaited: ReadonlySet<LaterCodec>,
): boolean {
  if (codec === BodyCodec.AVP || (codec === BodyCodec.PLAIN && bytes.length === 0)) return true;
  const algorithm = algorithmOf(codec);
  if (algorithm === undefined || !to.algorithms.includes(algorithm) || awaited.has(algorithm)) return false;
  return algorithm !== 'TOKEN_NATIVE' || from.encoding === to.encoding;
}

/** The same body, forwarded unchanged. */
export function passOn({ codec, bytes, originalLength, metadata }: ReceivedBody, secret: boolean): CodedBody {
  return { codec, bytes, originalLength: originalLength ?? bytes.length, secret, metadata };
}

/**
 * A body with the name of its sender.
 *
 * @param onWritten called with the number of its last frame.
 * @param onDropped called if it will not be written.
 */
export function addressed(
  { codec, bytes, originalLength, secret, metadata, deferred }: CodedBody,
  agent: string | undefined,
  onWritten: (frame: number) => void,
  onDropped?: () => void,
): BodyToSend {
  // The reply to an agent's request is relayed too.
  const relayed = agent !== undefined;
  // Field by field: spreading takes as long as all other work of the relay on a message.
  return {
    codec,
    bytes,
    originalLength,
    secret,
    metadata,
    deferred,
    address: agent,
    onWritten,
    onDropped,
    relayed,
  };
}

/** Deepest nesting of metadata that is read here, which its receiver reads anyway. */
const MAX_DEPTH = 32;

/**
 * A one-way message that says whether it may have been delivered before; its sender cannot say that.
 *
 * @throws {ProtocolError} what decoding metadata throws, and `metadata_too_large` if it has to say so.
 */
export function marked(body: CodedBody, isRedelivered: boolean, maxSize: number): CodedBody {
  if (body.metadata === undefined && !isRedelivered) return body;
  const { [REDELIVERED]: _stated, ...metadata } = decodeMetadata(body.metadata, MAX_DEPTH);
  const all = isRedelivered ? { ...metadata, [REDELIVERED]: true } : metadata;
  return { ...body, metadata: encodeMetadata(all, maxSize) };
}

/** Decodes the text of token parts; a character may be split between two of them. */
export type PartText = ReturnType<BodyCoder['createPartText']>;

/**
 * The same content, coded for the other session: as bytes if possible, which costs no more than decoding.
 *
 * @param partText the text decoder of the stream that the body is a part of.
 * @throws {ProtocolError} any error of decoding or coding.
 */
export function recode(
  body: ReceivedBody,
  from: BodyCoder,
  to: BodyCoder,
  partText: PartText | undefined,
): CodedBody {
  const content =
    partText !== undefined && body.codec === BodyCodec.TOKEN_NATIVE
      ? partText.push(from.tokens(body))
      : from.decode(body);
  return to.encode(content, { secret: body.secret, metadata: body.metadata });
}
