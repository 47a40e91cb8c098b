import { Prefix } from '../../base/constants.js';
import { ProtocolError } from '../../base/errors.js';
import { parseJson } from '../../base/json.js';
import { DEFAULT_LIMITS, type Limits } from '../../base/limits.js';
import { assertWellFormed, decodeUtf8, encodeUtf8 } from '../../base/text.js';
import { assertMessageSize, stripPrefix } from './text-form.js';
import { rewriteJson } from './token-rewrite.js';

/**
 * Token, T1 (compression document, section 5.3): chat JSON with abbreviated keys, roles, finish reasons and
 * models, without parameters that have their default value. It keeps the meaning of a document, not its
 * bytes: it drops whitespace, and the decoder writes out defaults that a request left out. Numbers and
 * strings keep their spelling.
 */

export interface TokenOptions {
  readonly limits?: Partial<Limits> | undefined;
}

/**
 * @returns `#T1|` and the abbreviated JSON.
 * @throws {ProtocolError} `bad_json`, `lone_surrogate`, `json_too_deep`, `string_too_long`, `array_too_long`,
 * `too_many_values`, `message_too_large`; `unrepresentable` if an abbreviation already has another meaning in
 * `json`, which decoding would change.
 */
export function encodeToken(json: string, options: TokenOptions = {}): string {
  const wire = Prefix.TOKEN + abbreviate(json, options);
  assertMessageSize(wire, options.limits);
  return wire;
}

/**
 * @returns JSON text without whitespace.
 * @throws {ProtocolError} `unknown_prefix`, `bad_json`, `json_too_deep`, `string_too_long`,
 * `array_too_long`, `too_many_values`, `message_too_large`, `decompressed_too_large`.
 */
export function decodeToken(wire: string, options: TokenOptions = {}): string {
  assertMessageSize(wire, options.limits);
  assertWellFormed(wire);
  return expand(stripPrefix(wire, Prefix.TOKEN), options);
}

/**
 * T1 without its prefix, as UTF-8: the body of a binary session frame.
 *
 * @throws {ProtocolError} as {@link encodeToken}.
 */
export function encodeTokenBody(json: string, options: TokenOptions = {}): Uint8Array<ArrayBuffer> {
  return encodeUtf8(abbreviate(json, options));
}

/** @throws {ProtocolError} `bad_utf8`, and as {@link decodeToken}. */
export function decodeTokenBody(body: Uint8Array, options: TokenOptions = {}): string {
  const limit = options.limits?.maxMessageSize ?? DEFAULT_LIMITS.maxMessageSize;
  if (body.length > limit) {
    throw new ProtocolError(
      'message_too_large',
      `the message has ${body.length} bytes, the limit is ${limit}`,
    );
  }
  return expand(decodeUtf8(body), options);
}

function abbreviate(json: string, { limits }: TokenOptions): string {
  assertMessageSize(json, limits);
  assertWellFormed(json);
  parseJson(json, { ...DEFAULT_LIMITS, ...limits });
  const abbreviated = rewriteJson(json, 'abbreviate', 'unrepresentable');
  const reread = rewriteJson(abbreviated, 'expand', 'unrepresentable');
  if (reread !== rewriteJson(json, 'keep', 'unrepresentable')) {
    throw new ProtocolError(
      'unrepresentable',
      'the JSON uses an abbreviation of T1 with another meaning; use another codec',
    );
  }
  return abbreviated;
}

function expand(abbreviated: string, { limits }: TokenOptions): string {
  parseJson(abbreviated, { ...DEFAULT_LIMITS, ...limits });
  const json = rewriteJson(abbreviated, 'expand', 'bad_json');
  try {
    assertMessageSize(json, limits);
  } catch (cause) {
    throw new ProtocolError('decompressed_too_large', 'abbreviated JSON expands beyond the message limit', {
      cause,
    });
  }
  return json;
}
