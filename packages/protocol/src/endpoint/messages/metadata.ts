import { ProtocolError } from '../../base/errors.js';
import { decodeMap, encodeMap } from '../../control/envelope.js';

/** What a message carries beside its body: HTTP status and headers, `traceparent`, a deadline. */
export type Metadata = Readonly<Record<string, MetadataValue>>;
export type MetadataValue =
  | string
  | number
  | boolean
  | null
  | readonly MetadataValue[]
  | { readonly [key: string]: MetadataValue };

/** @throws {ProtocolError} `invalid_argument` for what is no map, `metadata_too_large`. */
export function encodeMetadata(metadata: Metadata | undefined, maxSize: number): Uint8Array | undefined {
  if (metadata === undefined) return undefined;
  if (typeof metadata !== 'object' || metadata === null || Array.isArray(metadata)) {
    throw new ProtocolError('invalid_argument', 'metadata: an object is expected');
  }
  if (Object.keys(metadata).length === 0) return undefined;
  const bytes = encodeMap(metadata);
  if (bytes.length <= maxSize) return bytes;
  throw new ProtocolError(
    'metadata_too_large',
    `metadata of ${bytes.length} bytes, at most ${maxSize} can be sent`,
  );
}

/** @throws {ProtocolError} `bad_message`, `json_too_deep`. */
export function decodeMetadata(bytes: Uint8Array | undefined, maxDepth: number): Metadata {
  if (bytes === undefined) return EMPTY;
  return Object.freeze(decodeMap(bytes, maxDepth, 'metadata')) as Metadata;
}

const EMPTY: Metadata = Object.freeze({});
