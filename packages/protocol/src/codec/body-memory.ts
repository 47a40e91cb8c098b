import type { Limits } from '../base/limits.js';
import { BodyCodec, isSized, type ReceivedBody } from './body.js';
import { largestExpansion } from './text/expansion.js';

/** The memory that received bodies take. */

/** Bytes that the token IDs of a coded body stand for. */
type LengthOfTokens = (bytes: Uint8Array) => number;

/** Decoded bytes that are free: only a larger body is charged for its expansion. */
const MAX_FREE = 16 * 1024;
/** Coded bytes up to which the tokens of a body need not be looked up for that. */
const MAX_FREE_TOKENS = 512;
/** Bytes of metadata that are free, and the bytes of memory per byte of larger metadata, as objects. */
const MAX_FREE_METADATA = 1024;
const MEMORY_OF_METADATA = 8;

/** Most bytes that the content of a received body may have. Decodes nothing. */
export function decodedLength(
  body: ReceivedBody,
  { maxMessageSize }: Limits,
  lengthOfTokens: LengthOfTokens,
): number {
  const { codec, bytes, originalLength, content } = body;
  if (content !== undefined) return content.length;
  const { length } = bytes;
  let decoded = originalLength ?? length;
  if (codec === BodyCodec.TOKEN_NATIVE) decoded = lengthOfTokens(bytes);
  // Without a link, the length is not stated.
  else if (originalLength === undefined && isSized(codec)) decoded = maxMessageSize;
  return Math.max(length, Math.min(decoded, maxMessageSize, largestExpansion(length)));
}

/**
 * Bytes of memory that a received body takes once its content is decoded, as bytes and as text. Small bodies
 * count 0: windows and streams limit their number. Decodes nothing.
 */
export function memoryOf(body: ReceivedBody, limits: Limits, lengthOfTokens: LengthOfTokens): number {
  const { codec, bytes, originalLength, content, metadata } = body;
  // True for most messages.
  const stated = content?.length ?? originalLength ?? bytes.length;
  if (stated <= MAX_FREE_TOKENS && metadata === undefined) return 0;
  // A token is at most 128 bytes long.
  const isFree = codec === BodyCodec.TOKEN_NATIVE && bytes.length <= MAX_FREE_TOKENS;
  const decoded = isFree ? 0 : decodedLength(body, limits, lengthOfTokens);
  const described = metadata === undefined || metadata.length <= MAX_FREE_METADATA ? 0 : metadata.length;
  return (decoded <= MAX_FREE ? 0 : 2 * decoded) + MEMORY_OF_METADATA * described;
}
