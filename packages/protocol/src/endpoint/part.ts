import type { Algorithm } from '../constants.js';
import { ProtocolError } from '../errors.js';
import type { CodedBody } from '../link/link.js';
import type { BodyCoder } from './body-coder.js';

/**
 * What an application sends: a string is text, a `Uint8Array` is bytes, anything else is sent as its
 * JSON text.
 */
export type Body = string | Uint8Array | object | number | boolean | null;

/** One part of a reply. Token IDs travel as they are and are never tokenized again. */
export type Part =
  | string
  | { readonly text: string }
  | { readonly tokens: readonly number[] | Uint32Array }
  | { readonly json: unknown }
  | { readonly bytes: Uint8Array };

export interface EncodeOptions {
  /** @default 'auto' */
  readonly algorithm?: Algorithm | 'auto' | undefined;
  readonly secret?: boolean | undefined;
  readonly metadata?: Uint8Array | undefined;
}

/** @throws {ProtocolError} `invalid_argument`, and what the codec throws. */
export function encodeBody(body: Body, coder: BodyCoder, options: EncodeOptions = {}): CodedBody {
  if (typeof body === 'string' || body instanceof Uint8Array) return coder.encode(body, options);
  return coder.encode(toJson(body), options);
}

/** @throws {ProtocolError} `invalid_argument`, and what the codec throws. */
export function encodePart(part: Part, coder: BodyCoder, options: EncodeOptions = {}): CodedBody {
  if (typeof part === 'string') return coder.encode(part, options);
  if (typeof part === 'object' && part !== null) {
    if ('text' in part && typeof part.text === 'string') return coder.encode(part.text, options);
    if ('tokens' in part) return coder.encodeTokens(part.tokens, options);
    if ('bytes' in part && part.bytes instanceof Uint8Array) return coder.encode(part.bytes, options);
    if ('json' in part) return coder.encode(toJson(part.json), options);
  }
  throw new ProtocolError(
    'invalid_argument',
    'a part is a string or one of { text }, { tokens }, { json }, { bytes }',
  );
}

function toJson(value: unknown): string {
  const text = JSON.stringify(value) as string | undefined;
  if (text === undefined) throw new ProtocolError('invalid_argument', `a ${typeof value} has no JSON form`);
  return text;
}
