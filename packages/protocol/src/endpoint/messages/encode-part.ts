import { ProtocolError } from '../../base/errors.js';
import type { CodedBody } from '../../codec/body.js';
import type { BodyCoder } from '../../codec/coder.js';
import { bytesOf, type EncodeOptions, encodeContent, type Part, toJson } from './part.js';

/** The parts of replies; a page loads this with its first request. */

/** A part that is coded already. */
export class CodedPart {
  readonly body: CodedBody;

  constructor(body: CodedBody) {
    this.body = body;
  }
}

/** How a part is sent. */
type PartContent =
  | { readonly text: string }
  | { readonly tokens: readonly number[] | Uint32Array }
  | { readonly bytes: Uint8Array };

/**
 * @throws {ProtocolError} `invalid_argument` if it is not a part or has no JSON form; errors of the codec.
 */
export function encodePart(
  part: Part | CodedPart,
  coder: BodyCoder,
  options: EncodeOptions = {},
): CodedBody | Promise<CodedBody> {
  if (part instanceof CodedPart) return part.body;
  const content = partContent(part);
  if ('text' in content) return encodeContent(content.text, coder, options);
  if ('bytes' in content) return encodeContent(content.bytes, coder, options);
  const { tokens } = content;
  const loading = coder.load('TOKEN_NATIVE');
  if (loading !== undefined) return loading.then(() => coder.encodeTokens(tokens, options));
  return coder.encodeTokens(tokens, options);
}

/** @throws {ProtocolError} `invalid_argument` if it is not a part or has no JSON form. */
function partContent(part: Part): PartContent {
  if (typeof part === 'string') return { text: part };
  const bytes = bytesOf(part);
  if (bytes !== undefined) return { bytes };
  if (typeof part !== 'object' || part === null) return jsonOf(part);
  if (Symbol.asyncIterator in part || ('then' in part && typeof part.then === 'function')) {
    throw new ProtocolError('invalid_argument', 'a generator or a promise is not a part of a reply');
  }
  if (isForm(part, 'text') && typeof part.text === 'string') return { text: part.text };
  const form = isForm(part, 'bytes') ? bytesOf(part.bytes) : undefined;
  if (form !== undefined) return { bytes: form };
  if (isForm(part, 'tokens') && areTokens(part.tokens)) return { tokens: part.tokens };
  return jsonOf(isForm(part, 'json') ? part.json : part);
}

function jsonOf(value: unknown): PartContent {
  return { text: toJson(value) };
}

/** Whether `name` is the only member. */
export function isForm<Name extends string>(
  part: Part,
  name: Name,
): part is { readonly [Only in Name]: unknown } {
  return typeof part === 'object' && part !== null && name in part && Object.keys(part).length === 1;
}

/** The IDs themselves are checked when they are coded. */
export function areTokens(value: unknown): value is readonly number[] | Uint32Array {
  return Array.isArray(value) || value instanceof Uint32Array;
}
