import type { Algorithm } from '../../base/constants.js';
import { ProtocolError } from '../../base/errors.js';
import type { BodyCoder } from '../../codec/auto/coder.js';
import type { CodedBody } from '../../codec/body.js';
import type { BodyToSend } from '../../link/link.js';

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
  readonly algorithm?: Algorithm | 'CONTEXT' | 'auto' | undefined;
  readonly secret?: boolean | undefined;
  readonly metadata?: Uint8Array | undefined;
  /** To whom it is, where it is not for the peer itself. */
  readonly agent?: string | undefined;
}

/**
 * A body in its codec: at once, or later where it is so large that other sessions would wait for it.
 *
 * @throws {ProtocolError} `invalid_argument`, and what the codec throws.
 */
export function encodeBody(
  body: Body,
  coder: BodyCoder,
  options: EncodeOptions = {},
): BodyToSend | Promise<BodyToSend> {
  const coded = encodeContent(
    typeof body === 'string' || body instanceof Uint8Array ? body : toJson(body),
    coder,
    options,
  );
  const { agent } = options;
  if (agent === undefined) return coded;
  return coded instanceof Promise ? coded.then((later) => ({ ...later, agent })) : { ...coded, agent };
}

function encodeContent(
  content: string | Uint8Array,
  coder: BodyCoder,
  options: EncodeOptions,
): CodedBody | Promise<CodedBody> {
  if (content.length < LARGE_CONTENT || typeof content !== 'string' || coder.isDeferred(content, options)) {
    return coder.encode(content, options);
  }
  return coder.encodeInSlices(content, options);
}

/** UTF-16 units from which text is coded in slices; below, no codec takes more than some 10 ms. */
const LARGE_CONTENT = 128 * 1024;

/** @throws {ProtocolError} `invalid_argument`, and what the codec throws. */
export function encodePart(
  part: Part,
  coder: BodyCoder,
  options: EncodeOptions = {},
): CodedBody | Promise<CodedBody> {
  if (typeof part === 'string') return encodeContent(part, coder, options);
  if (typeof part === 'object' && part !== null) {
    if ('text' in part && typeof part.text === 'string') return encodeContent(part.text, coder, options);
    if ('tokens' in part) return coder.encodeTokens(part.tokens, options);
    if ('bytes' in part && part.bytes instanceof Uint8Array) return encodeContent(part.bytes, coder, options);
    if ('json' in part) return encodeContent(toJson(part.json), coder, options);
  }
  throw new ProtocolError(
    'invalid_argument',
    'a part is a string or one of { text }, { tokens }, { json }, { bytes }',
  );
}

function toJson(value: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (cause) {
    throw new ProtocolError(
      'invalid_argument',
      'the value has no JSON form; does it hold a BigInt, or itself?',
      { cause },
    );
  }
  if (text === undefined) {
    const what = value === undefined ? 'undefined' : `a ${typeof value}`;
    throw new ProtocolError(
      'invalid_argument',
      `${what} has no JSON form; send a string, bytes, or what JSON can hold`,
    );
  }
  return text;
}
