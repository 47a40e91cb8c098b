import { withArticle } from '../../base/article.js';
import { copyBytes } from '../../base/bytes.js';
import type { Algorithm } from '../../base/constants.js';
import { ProtocolError } from '../../base/errors.js';
import { isShown } from '../../base/shown.js';
import type { CodedBody } from '../../codec/body.js';
import type { BodyCoder } from '../../codec/coder.js';
import type { BodyToSend } from '../../link/link.js';
import { type BlobBody, isBlob } from './blob.js';

/**
 * The content of a message or request, and one part of a reply: a string is text; an `ArrayBuffer`, a typed array, a
 * `DataView` and a `Blob` are bytes; any other value is sent as JSON. All of it is read before the call returns, so the caller
 * may use a buffer again at once. Only a `Blob`, which does not change, is read when its turn comes; its type does not travel.
 * Bytes within JSON are refused, and so is, at any level, what JSON would leave out or make an empty object, such as a `Map`,
 * an `Error` or a function; members that are `undefined` are left out.
 *
 * An object whose only member is `text`, `tokens`, `json` or `bytes`, with a value of that kind, says how that value is sent.
 * Token IDs are sent as they are, without detokenizing them. An object of the application that has such a form by chance,
 * such as `{ text: 'a' }`, is sent as JSON if it is wrapped: `{ json: { text: 'a' } }`.
 */
export type Body =
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

/** One part of a reply: a {@link Body}. */
export type Part = Body;

/** Any object that is sent as JSON. A generator or a promise is not one. */
export type JsonPart =
  | { readonly [key: string]: unknown }
  | (object & { readonly [Symbol.asyncIterator]?: undefined; readonly then?: undefined });

/** Whether a handler has returned the parts of its reply, and not the reply itself. */
export function isAsyncIterable(value: unknown): value is AsyncIterable<unknown, unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}

/** Whether a value is a generator, and not one of the collections, which are JSON or nothing. */
export function isGenerator(
  value: unknown,
): value is Iterator<unknown, unknown> & Iterable<unknown, unknown> {
  return (
    typeof value === 'object' &&
    value !== null &&
    Symbol.iterator in value &&
    'next' in value &&
    typeof value.next === 'function'
  );
}

/** Token IDs, as the application has them. */
export interface TokenContent {
  readonly tokens: readonly number[] | Uint32Array;
}

/** The forms in which a body is sent. Each of them is a body itself, which means the same. */
export type Content = string | Uint8Array | TokenContent | BlobBody;

export interface EncodeOptions {
  /** @default 'auto' */
  readonly algorithm?: Algorithm | 'CONTEXT' | 'auto' | undefined;
  readonly compressAlone?: boolean | undefined;
  readonly metadata?: Uint8Array | undefined;
  /** The name of the receiver. @default the peer itself */
  readonly address?: string | undefined;
  /** All of it is written. */
  readonly onWritten?: BodyToSend['onWritten'];
  /** See `CoderOptions`. */
  readonly isOwned?: boolean | undefined;
}

/**
 * Encodes the content of a body: at once, or in slices if it is so large that other sessions would wait for it.
 *
 * @throws {ProtocolError} errors of the codec.
 */
export function encodeBody(
  content: Exclude<Content, BlobBody>,
  coder: BodyCoder,
  options: EncodeOptions = {},
): BodyToSend | Promise<BodyToSend> {
  const coded = encodeContent(content, coder, options);
  const { address, onWritten } = options;
  if (address === undefined && onWritten === undefined) return coded;
  const complete = (body: CodedBody): BodyToSend => ({ ...body, address, onWritten });
  return coded instanceof Promise ? coded.then(complete) : complete(coded);
}

/**
 * The form in which a body is sent.
 *
 * @throws {ProtocolError} `invalid_argument` if it has no JSON form.
 */
export function contentOf(body: Body): Content {
  if (typeof body === 'string') return body;
  const binary = binaryOf(body);
  if (binary !== undefined) return binary;
  if (isForm(body, 'text') && typeof body.text === 'string') return body.text;
  if (isForm(body, 'tokens') && areTokens(body.tokens)) return { tokens: body.tokens };
  const bytes = isForm(body, 'bytes') ? binaryOf(body.bytes) : undefined;
  return bytes ?? toJson(isForm(body, 'json') ? body.json : body);
}

/** Whether `name` is the only member. */
export function isForm<Name extends string>(
  body: Body,
  name: Name,
): body is { readonly [Only in Name]: unknown } {
  if (typeof body !== 'object' || body === null || !Object.hasOwn(body, name)) return false;
  return Object.keys(body).length === 1;
}

/** Which of them exist is checked when they are coded. */
export function areTokens(value: unknown): value is TokenContent['tokens'] {
  if (value instanceof Uint32Array) return true;
  return Array.isArray(value) && value.every((id) => id === id >>> 0);
}

export function isTokens(content: Content): content is TokenContent {
  return typeof content === 'object' && 'tokens' in content;
}

/** UTF-16 units of a text, or bytes. */
export function sizeOf(content: Content): number {
  if (isTokens(content)) return content.tokens.length * 4;
  return isBlob(content) ? content.size : content.length;
}

/** A content that is coded later: the caller may use its memory again meanwhile. */
export function ownContent<Of extends Content>(content: Of): Of | Uint8Array | TokenContent {
  if (content instanceof Uint8Array) return copyBytes(content);
  return isTokens(content) ? { tokens: Uint32Array.from(content.tokens) } : content;
}

function binaryOf(value: unknown): Uint8Array | BlobBody | undefined {
  return bytesOf(value) ?? (isBlob(value) ? value : undefined);
}

/** The bytes of a buffer or a view; `undefined` for any other value. */
export function bytesOf(value: unknown): Uint8Array | undefined {
  if (value instanceof Uint8Array) return value;
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  return value instanceof ArrayBuffer ? new Uint8Array(value) : undefined;
}

/** As {@link encodeBody}, for the peer itself. */
export function encodeContent(
  content: Exclude<Content, BlobBody>,
  coder: BodyCoder,
  options: EncodeOptions,
): CodedBody | Promise<CodedBody> {
  if (isTokens(content)) return encodeTokens(content, coder, options);
  const loading = coder.load(options.algorithm);
  if (loading !== undefined) {
    const own = ownContent(content);
    return loading.then(() => encodeContent(own, coder, { ...options, isOwned: true }));
  }
  if (content.length < LARGE_CONTENT || typeof content !== 'string' || coder.isDeferred(content, options)) {
    return coder.encode(content, options);
  }
  return coder.encodeInSlices(content, options);
}

function encodeTokens(
  { tokens }: TokenContent,
  coder: BodyCoder,
  options: EncodeOptions,
): CodedBody | Promise<CodedBody> {
  const { algorithm = 'auto' } = options;
  if (algorithm !== 'auto' && algorithm !== 'TOKEN_NATIVE')
    throw new ProtocolError('unsupported', `token IDs are sent in TOKEN_NATIVE, not in ${algorithm}`);
  const loading = coder.load('TOKEN_NATIVE');
  if (loading === undefined) return coder.encodeTokens(tokens, options);
  const own = Uint32Array.from(tokens);
  return loading.then(() => coder.encodeTokens(own, options));
}

/** UTF-16 units from which text is coded in slices; below, every codec takes at most about 10 ms. */
const LARGE_CONTENT = 128 * 1024;

/** @throws {ProtocolError} `invalid_argument` if it has no JSON form. */
function toJson(value: unknown): string {
  assertNoSource(value);
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (cause) {
    throw invalid('the value has no JSON form: it has a BigInt, refers to itself or throws', { cause });
  }
  if (text === undefined || isLost(value, text)) {
    const what = value === undefined ? 'undefined' : withArticle(nameOf(value));
    throw invalid(`${what} has no JSON form; expected a string, bytes or a JSON value`);
  }
  const path = mayHaveBytes(text)
    ? pathTo(value, (made, given) => (binaryOf(given) ?? binaryOf(made)) !== undefined)
    : undefined;
  if (path !== undefined)
    throw invalid(`${path}: bytes have no JSON form; send them by themselves, or as text, such as base64`);
  assertKept(value);
  return text;
}

/**
 * A value of which JSON keeps all.
 *
 * @throws {ProtocolError} `invalid_argument` with the path of what JSON would leave out or make an empty object, such as a
 * `Map`, an `Error` or a function. Members that are `undefined` are left out, as JSON does.
 */
export function assertKept(value: unknown, name = ''): void {
  if (!hasLost(value)) return;
  let lost: unknown;
  const path = pathTo(value, (_made, given) => {
    const isFound = isUnwritten(given);
    if (isFound) lost = given;
    return isFound;
  });
  const where = [name, path].filter(Boolean).join('.');
  throw invalid(`${where}: the ${nameOf(lost)} has no JSON form; send what it holds, as objects and arrays`);
}

/** Whether JSON keeps nothing of a value within another one. */
function isUnwritten(value: unknown): boolean {
  if (typeof value === 'function' || typeof value === 'symbol') return true;
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  if (value instanceof Number || value instanceof String || value instanceof Boolean) return false;
  return isLost(value, '{}');
}

/** Whether the JSON form of a value lacks something of it. An object with a `toJSON` decides that itself. */
function hasLost(value: unknown, depth = 0): boolean {
  if (isUnwritten(value)) return true;
  if (typeof value !== 'object' || value === null || 'toJSON' in value || depth > MAX_DEPTH) return false;
  if (Array.isArray(value)) return value.some((each) => hasLost(each, depth + 1));
  for (const key in value) {
    if (Object.hasOwn(value, key) && hasLost((value as Record<string, unknown>)[key], depth + 1)) return true;
  }
  return false;
}

/** No end accepts JSON with as many levels by default. */
const MAX_DEPTH = 256;

/** @throws {ProtocolError} `invalid_argument` for what makes a value later, or several. */
function assertNoSource(value: unknown): void {
  if (typeof value !== 'object' || value === null) return;
  if (isAsyncIterable(value) || isGenerator(value)) {
    throw invalid('a generator is not a body: a handler returns it, or yields its parts with yield*');
  }
  if ('then' in value && typeof value.then === 'function')
    throw invalid('a promise is not a body: await it first');
}

function invalid(message: string, options?: ErrorOptions): ProtocolError {
  return new ProtocolError('invalid_argument', message, options);
}

/** Whether JSON keeps nothing of a value that is not a plain object and does not say itself how it is written. */
function isLost(value: unknown, text: string): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (isShown(value)) return true;
  if ('toJSON' in value) return false;
  if (value instanceof Error) return true;
  const prototype: unknown = Object.getPrototypeOf(value);
  const isPlain = prototype === null || Object.getPrototypeOf(prototype) === null;
  return text === '{}' && !isPlain && Object.keys(value).length === 0;
}

function nameOf(value: unknown): string {
  return typeof value === 'object' ? value?.constructor?.name || 'value' : typeof value;
}

/** Whether JSON may have been made of a view with elements, of one without or a buffer, or of a `Buffer` of Node. */
function mayHaveBytes(text: string): boolean {
  return text.includes('{"0":') || text.includes('{}') || text.includes('{"type":"Buffer"');
}

/**
 * Where the first value that is looked for is within one that has a JSON form, such as `images[0]`.
 *
 * @param isIt of what the `toJSON` of a value has made, and of that value.
 */
function pathTo(root: unknown, isIt: (made: unknown, given: unknown) => boolean): string | undefined {
  const paths = new Map<unknown, string>();
  let found: string | undefined;
  JSON.stringify(root, function (this: Record<string, unknown>, key, value) {
    // The value itself, and the result of its toJSON.
    const before = paths.get(this) ?? '';
    const path = Array.isArray(this)
      ? `${before}[${key}]`
      : before && key
        ? `${before}.${key}`
        : before || key;
    if (found === undefined && isIt(value, this[key])) found = path;
    paths.set(value, path);
    return found === undefined ? value : undefined;
  });
  return found;
}
