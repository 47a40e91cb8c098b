import { ProtocolError } from '../../base/errors.js';
import { decodeMap, encodeMap } from '../../control/envelope.js';

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
 * @throws {ProtocolError} `invalid_argument` if it is not an object or holds a value that cannot be encoded;
 * `lone_surrogate`; `metadata_too_large`.
 */
export function encodeMetadata(metadata: Metadata | undefined, maxSize: number): Uint8Array | undefined {
  if (metadata === undefined) return undefined;
  if (typeof metadata !== 'object' || metadata === null || Array.isArray(metadata)) {
    throw new ProtocolError('invalid_argument', 'metadata: expected an object');
  }
  if (Object.keys(metadata).length === 0) return undefined;
  const bytes = encodeMap(metadata);
  if (bytes.length <= maxSize) return bytes;
  throw new ProtocolError(
    'metadata_too_large',
    `the metadata has ${bytes.length} bytes; at most ${maxSize} can be sent`,
  );
}

/** @throws {ProtocolError} `bad_message`, `json_too_deep`. */
export function decodeMetadata(bytes: Uint8Array | undefined, maxDepth: number): Metadata {
  if (bytes === undefined) return EMPTY;
  return Object.freeze(decodeMap(bytes, maxDepth, 'metadata')) as Metadata;
}

const EMPTY: Metadata = Object.freeze({});
