import type { Algorithm } from '../../base/constants.js';
import { ProtocolError } from '../../base/errors.js';
import type { CodedBody } from '../../codec/body.js';
import type { BodyCoder } from '../../codec/coder.js';
import type { BodyToSend } from '../../link/link.js';
import { type BlobBody, isBlob } from './blob.js';

/**
 * The content of a message or request: a string is text; an `ArrayBuffer`, a typed array, a `DataView` and a `Blob` are
 * bytes; any other value is sent as JSON. A `Blob` is read when its turn comes, and its type does not travel. What JSON
 * would make an empty object of, such as a `Map` or an `Error`, is refused.
 */
export type Body = string | Uint8Array | object | number | boolean | null;

/**
 * One part of a reply: a {@link Body}, or an object whose only member says how its value is sent. Token IDs are sent as
 * they are, without detokenizing them. An object of the application that has such a form by chance, such as
 * `{ text: 'a' }`, is sent as JSON if it is wrapped: `{ json: { text: 'a' } }`.
 */
export type Part =
  | string
  | number
  | boolean
  | null
  | Uint8Array
  | { readonly text: string }
  | { readonly tokens: readonly number[] | Uint32Array }
  | { readonly json: unknown }
  | { readonly bytes: Uint8Array }
  | JsonPart;

/** Any object that is sent as JSON. A generator or a promise is not a part. */
export type JsonPart =
  | { readonly [key: string]: unknown }
  | (object & { readonly [Symbol.asyncIterator]?: undefined; readonly then?: undefined });

/** Whether a handler has returned the parts of its reply, and not the reply itself. */
export function isAsyncIterable(value: unknown): value is AsyncIterable<unknown, unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}

export interface EncodeOptions {
  /** @default 'auto' */
  readonly algorithm?: Algorithm | 'CONTEXT' | 'auto' | undefined;
  readonly secret?: boolean | undefined;
  readonly metadata?: Uint8Array | undefined;
  /** The receiving agent, if that is not the peer itself. */
  readonly agent?: string | undefined;
  /** All of it is written. */
  readonly onWritten?: BodyToSend['onWritten'];
}

/**
 * Encodes the content of a body: at once, or in slices if it is so large that other sessions would wait for it.
 *
 * @throws {ProtocolError} errors of the codec.
 */
export function encodeBody(
  content: string | Uint8Array,
  coder: BodyCoder,
  options: EncodeOptions = {},
): BodyToSend | Promise<BodyToSend> {
  const coded = encodeContent(content, coder, options);
  const { agent, onWritten } = options;
  if (agent === undefined && onWritten === undefined) return coded;
  const complete = (body: CodedBody): BodyToSend => ({ ...body, agent, onWritten });
  return coded instanceof Promise ? coded.then(complete) : complete(coded);
}

/**
 * The text or the bytes of a body, or a `Blob` that has them.
 *
 * @throws {ProtocolError} `invalid_argument` if it has no JSON form.
 */
export function contentOf(body: Body): string | Uint8Array | BlobBody {
  if (typeof body === 'string') return body;
  return bytesOf(body) ?? (isBlob(body) ? body : toJson(body));
}

/** The bytes of a buffer or a view; `undefined` for any other value. */
export function bytesOf(value: unknown): Uint8Array | undefined {
  if (value instanceof Uint8Array) return value;
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  return value instanceof ArrayBuffer ? new Uint8Array(value) : undefined;
}

/** As {@link encodeBody}, without an agent. */
export function encodeContent(
  content: string | Uint8Array,
  coder: BodyCoder,
  options: EncodeOptions,
): CodedBody | Promise<CodedBody> {
  const loading = coder.load(options.algorithm);
  if (loading !== undefined) return loading.then(() => encodeContent(content, coder, options));
  if (content.length < LARGE_CONTENT || typeof content !== 'string' || coder.isDeferred(content, options)) {
    return coder.encode(content, options);
  }
  return coder.encodeInSlices(content, options);
}

/** UTF-16 units from which text is coded in slices; below, every codec takes at most about 10 ms. */
const LARGE_CONTENT = 128 * 1024;

/** @throws {ProtocolError} `invalid_argument` if it has no JSON form. */
export function toJson(value: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (cause) {
    throw new ProtocolError(
      'invalid_argument',
      'the value has no JSON form: it contains a BigInt or refers to itself',
      { cause },
    );
  }
  if (text === undefined || isLost(value, text)) {
    const what = value === undefined ? 'undefined' : `a ${nameOf(value)}`;
    throw new ProtocolError(
      'invalid_argument',
      `${what} has no JSON form; expected a string, bytes or a JSON value`,
    );
  }
  return text;
}

/** Whether JSON keeps nothing of a value that is not a plain object and does not say itself how it is written. */
function isLost(value: unknown, text: string): boolean {
  if (typeof value !== 'object' || value === null || 'toJSON' in value) return false;
  if (value instanceof Error) return true;
  const prototype: unknown = Object.getPrototypeOf(value);
  const isPlain = prototype === null || Object.getPrototypeOf(prototype) === null;
  return text === '{}' && !isPlain && Object.keys(value).length === 0;
}

function nameOf(value: unknown): string {
  return typeof value === 'object' ? (value?.constructor?.name ?? 'value') : typeof value;
}
