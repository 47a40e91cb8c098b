import { platform } from '#platform';
import { ProtocolError } from '../base/errors.js';

/**
 * Base64 as all text forms use it: RFC 4648 section 4, the standard alphabet with padding, and only the
 * canonical spelling of each byte string.
 */

/** Encodes bytes as padded standard base64. */
export function encodeBase64(bytes: Uint8Array): string {
  return platform.encodeBase64(bytes);
}

/**
 * Decodes padded standard base64. Whitespace, the URL alphabet, missing or misplaced padding and non-zero
 * unused bits are refused, so `encodeBase64(decodeBase64(text)) === text`.
 *
 * @throws {ProtocolError} `bad_base64`.
 */
export function decodeBase64(text: string): Uint8Array<ArrayBuffer> {
  const bytes = platform.decodeBase64(text);
  if (bytes === undefined) {
    throw new ProtocolError(
      'bad_base64',
      `${text.length} characters are not base64: expected the standard alphabet, padded to a multiple of 4, with zero unused bits`,
    );
  }
  return bytes;
}
