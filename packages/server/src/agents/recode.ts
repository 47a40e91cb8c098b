import {
  algorithmOf,
  BodyCodec,
  type BodyToSend,
  type CodedBody,
  type Negotiated,
  type ReceivedBody,
} from '@parlance/protocol';
import type { BodyCoder } from '@parlance/protocol/internal';

/** Whether what one session carries may be read by another: bodies pass a relay as they are where it may. */

/**
 * Whether a body that was coded for one session means the same in another. Token IDs mean something in
 * their encoding only; what AVP frames need, both ends have, and nothing at all, not even coded, is the same.
 */
export function isSharedCoding({ codec, bytes }: ReceivedBody, from: Negotiated, to: Negotiated): boolean {
  if (codec === BodyCodec.AVP || (codec === BodyCodec.PLAIN && bytes.length === 0)) return true;
  const algorithm = algorithmOf(codec);
  if (algorithm === undefined || !to.algorithms.includes(algorithm)) return false;
  return algorithm !== 'TOKEN_NATIVE' || from.encoding === to.encoding;
}

/** The same body, passed on as it is. */
export function passOn({ codec, bytes, originalLength, metadata }: ReceivedBody, secret: boolean): CodedBody {
  return { codec, bytes, originalLength: originalLength ?? bytes.length, secret, metadata };
}

/** A body with whom it is from, and who is told when it is written or will not be. */
export function addressed(
  { codec, bytes, originalLength, secret, metadata, deferred }: CodedBody,
  agent: string | undefined,
  onWritten: (frame: number) => void,
  onDropped?: () => void,
): BodyToSend {
  // What answers a request from an agent goes back to it.
  const relayed = agent !== undefined;
  // Field by field: spreading takes as long as everything else that the relay does with a message.
  return { codec, bytes, originalLength, secret, metadata, deferred, agent, onWritten, onDropped, relayed };
}

/** Text of token parts, where a character may be split between two of them. */
export type PartText = ReturnType<BodyCoder['createPartText']>;

/**
 * The same content coded for the other session: as bytes where it takes them, which costs no more than
 * decoding.
 *
 * @param partText of the stream that the body is a part of.
 * @throws {ProtocolError} what decoding or coding throws.
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
