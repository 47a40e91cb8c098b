import { present } from '../../base/shown.js';

/** The fields that are shown of a reply. */
export function replyFields({
  id,
  keptId,
  position,
  metadata,
}: {
  readonly id: number;
  readonly keptId: string | undefined;
  readonly position: number;
  readonly metadata: object;
}): object {
  const hasMetadata = Object.keys(metadata).length > 0;
  return present({ id, keptId, position, metadata: hasMetadata ? metadata : undefined });
}
