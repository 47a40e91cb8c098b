import { type Fields, get, isCount, isFields } from '../../base/fields.js';
import { encodeMap } from '../../control/maps.js';
import type { Metadata } from '../messages/metadata.js';

/** The entry of a reply's metadata in which the server names a kept reply. */
export const KEPT = '@reply';

/** The server's metadata of a kept reply. */
export interface KeptMetadata {
  readonly id: string;
  /** The number of the part that the next one follows: 0 at the beginning of a reply. */
  readonly after: number;
  /** The bytes of a character that the token parts up to `after` end in, at most 3. */
  readonly held: Uint8Array | undefined;
}

/** Encoded metadata with nothing but the entry. */
export function encodeKept({ id, after, held }: KeptMetadata): Uint8Array {
  const bytes = held === undefined || held.length === 0 ? {} : { held: [...held] };
  return encodeMap({ [KEPT]: { id, after, ...bytes } });
}

/** Reads the entry; `undefined` if there is none, or not one of this form. */
export function readKept(metadata: Metadata): KeptMetadata | undefined {
  const entry: unknown = metadata[KEPT];
  if (!isFields(entry)) return undefined;
  const fields: Fields = entry;
  const [id, after = 0, held] = [get(fields, 'id'), get(fields, 'after'), get(fields, 'held')];
  if (typeof id !== 'string' || !isCount(after)) return undefined;
  return { id, after, held: isBytes(held) ? Uint8Array.from(held) : undefined };
}

function isBytes(value: unknown): value is number[] {
  return Array.isArray(value) && value.length <= 3 && value.every((byte) => isCount(byte) && byte < 256);
}
