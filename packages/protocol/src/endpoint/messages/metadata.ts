import { assertMsgpackBounds } from '#msgpack';
import { ProtocolError, toProtocolError } from '../../base/errors.js';
import { DEFAULT_LIMITS } from '../../base/limits.js';
import { decodeMap, encodeMap } from '../../control/maps.js';

/**
 * Entries of all lists and maps of a message's metadata together (docs/protocol/link.md). Decoding an entry
 * costs about a microsecond, and 8 KiB hold thousands of them.
 */
export const MAX_METADATA_ENTRIES = 256;

/** The entry of a one-way message of another client that may have been delivered before. Only servers set it. */
export const REDELIVERED = '@redelivered';

/** Sent with the body of a request or reply: HTTP status and headers, `traceparent`, a deadline. */
export type Metadata = Readonly<Record<string, MetadataValue>>;
export type MetadataValue =
  | string
  | number
  | boolean
  | null
  | readonly MetadataValue[]
  | { readonly [key: string]: MetadataValue };

/**
 * Encodes metadata; `undefined` if there is none.
 *
 * @param maxSize bytes of the encoded metadata.
 * @throws {ProtocolError} `invalid_argument` if it is not an object, or holds what the other end would refuse or read as something
 * else: a value that is no plain object, list, text, number, boolean or bytes, the key `__proto__`, or more than 32 levels;
 * `lone_surrogate`; `metadata_too_large`.
 */
export function encodeMetadata(metadata: Metadata | undefined, maxSize: number): Uint8Array | undefined {
  if (metadata === undefined) return undefined;
  if (typeof metadata !== 'object' || metadata === null || Array.isArray(metadata)) {
    throw new ProtocolError('invalid_argument', 'metadata: expected an object');
  }
  try {
    if (Object.keys(metadata).length === 0) return undefined;
    assertPlain(metadata, 'metadata', 1);
  } catch (cause) {
    throw toProtocolError(cause, 'invalid_argument', 'metadata: a member cannot be read');
  }
  const bytes = encodeMap(metadata);
  withinEntries(() => assertMsgpackBounds(bytes, Infinity, 'the metadata', MAX_METADATA_ENTRIES));
  if (bytes.length <= maxSize) return bytes;
  throw new ProtocolError(
    'metadata_too_large',
    `the metadata has ${bytes.length} bytes; at most ${maxSize} can be sent`,
  );
}

/** Refuses what would be lost on the way, such as the entries of a Map, and what readers refuse. */
function assertPlain(value: unknown, path: string, depth: number): void {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return;
  if (depth > DEFAULT_LIMITS.maxJsonDepth) {
    const levels = `more than ${DEFAULT_LIMITS.maxJsonDepth} levels`;
    throw new ProtocolError(
      'invalid_argument',
      `metadata: ${levels} deep, which the other end refuses; send it as a body`,
    );
  }
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) assertPlain(item, `${path}[${index}]`, depth + 1);
    return;
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  // A plain object of another realm has another prototype, which has none itself.
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null) {
    const kind = Object.prototype.toString.call(value).slice(8, -1);
    throw new ProtocolError(
      'invalid_argument',
      `${path} is ${kind === 'Object' ? 'an object of a class' : `a ${kind}`}, which metadata cannot carry; send plain objects, lists, texts and numbers`,
    );
  }
  for (const [key, member] of Object.entries(value)) {
    if (key === '__proto__') {
      throw new ProtocolError(
        'invalid_argument',
        `${path} has the key __proto__, which the other end refuses`,
      );
    }
    assertPlain(member, `${path}.${key.slice(0, 64)}`, depth + 1);
  }
}

/** @throws {ProtocolError} `bad_message`, `json_too_deep`, `metadata_too_large` for too many entries. */
export function decodeMetadata(bytes: Uint8Array | undefined, maxDepth: number): Metadata {
  if (bytes === undefined) return EMPTY;
  const fields = withinEntries(() => decodeMap(bytes, maxDepth, 'metadata', MAX_METADATA_ENTRIES));
  return Object.freeze(fields) as Metadata;
}

/** Metadata has a code of its own for being too large. */
function withinEntries<Result>(task: () => Result): Result {
  try {
    return task();
  } catch (error) {
    if (!(error instanceof ProtocolError) || error.code !== 'message_too_large') throw error;
    throw new ProtocolError('metadata_too_large', error.message, { cause: error });
  }
}

const EMPTY: Metadata = Object.freeze({});

/** Whether the server says that a message of another client may have been delivered before. */
export function isRedelivered(message: {
  readonly received: { readonly metadata?: unknown };
  readonly metadata: Metadata;
}) {
  if (message.received.metadata === undefined) return false;
  try {
    return message.metadata[REDELIVERED] === true;
  } catch {
    // Who reads the metadata learns what is wrong with them.
    return false;
  }
}
