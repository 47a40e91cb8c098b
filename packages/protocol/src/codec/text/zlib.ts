import { platform } from '#platform';
import { Prefix } from '../../base/constants.js';
import { DEFAULT_LIMITS, type Limits } from '../../base/limits.js';
import { decodeUtf8 } from '../../base/text.js';
import { decodeBase64 } from '../base64.js';
import { assertMessageSize, stripPrefix } from './text-form.js';

/**
 * The deprecated zlib form `#M2M[v2.0]|DATA:` (wire document, section 3.6.2): accepted from old peers if that
 * is enabled, never written.
 */

export interface DecodeZlibOptions {
  readonly limits?: Partial<Limits> | undefined;
}

/**
 * @throws {ProtocolError} `unknown_prefix`, `bad_base64`, `bad_compression`, `trailing_bytes`,
 * `bad_utf8`, `message_too_large`, `decompressed_too_large`.
 */
export function decodeZlib(wire: string, { limits = DEFAULT_LIMITS }: DecodeZlibOptions = {}): string {
  assertMessageSize(wire, limits);
  const body = decodeBase64(stripPrefix(wire, Prefix.ZLIB_V2));
  return decodeUtf8(platform.inflate(body, limits.maxMessageSize ?? DEFAULT_LIMITS.maxMessageSize));
}
