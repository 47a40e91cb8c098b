import {
  algorithmOf,
  BodyCodec,
  type CodedBody,
  type LaterCodec,
  type Negotiated,
  type ReceivedBody,
} from '@parlance/protocol';
import type { BodyCoder, PartText } from '@parlance/protocol/internal';

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
  return to.encode(content, { compressAlone: body.secret, metadata: body.metadata });
}
