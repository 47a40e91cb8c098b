import type { CodedBody } from '@parlance/protocol';
import { decodeMetadata, encodeMetadata, hasContent, KEPT, readKept } from '@parlance/protocol/internal';
import { decodeRecord, encodeRecord } from './record.js';

/**
 * The parts of a reply that are recorded with its session, as they stand in the record of a kept reply. There, metadata
 * come with the part after them, and without the ID of the reply.
 */
export function recordsOf(yielded: readonly CodedBody[], maxDepth: number): Uint8Array[] {
  let metadata: Uint8Array | undefined;
  return yielded.flatMap((body) => {
    metadata = withoutId(body.metadata, maxDepth) ?? metadata;
    if (!hasContent(body)) return [];
    const record = encodeRecord(body, metadata);
    metadata = undefined;
    return [record];
  });
}

/** A part of a kept reply as it was for its requester. */
export function yieldedOf(record: Uint8Array): CodedBody {
  return { ...decodeRecord(record), metadata: undefined };
}

/** How far a request that follows a kept reply has come, by what it has yielded; `undefined` if that is nothing. */
export function positionIn(
  yielded: readonly CodedBody[],
  maxDepth: number,
): { readonly id: string; readonly next: number; readonly hasParts: boolean } | undefined {
  const [first] = yielded;
  const kept = first && readKept(decodeMetadata(first.metadata, maxDepth));
  if (kept === undefined) return undefined;
  const parts = yielded.filter(hasContent).length;
  return { id: kept.id, next: kept.after + parts, hasParts: parts > 0 };
}

function withoutId(bytes: Uint8Array | undefined, maxDepth: number): Uint8Array | undefined {
  if (bytes === undefined) return undefined;
  const { [KEPT]: id, ...rest } = decodeMetadata(bytes, maxDepth);
  return id === undefined ? bytes : encodeMetadata(rest, Number.POSITIVE_INFINITY);
}
