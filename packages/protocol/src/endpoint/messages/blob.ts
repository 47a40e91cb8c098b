/** The members that are used of a `Blob` or a `File` of any realm. */
export interface BlobBody {
  readonly size: number;
  arrayBuffer(): Promise<ArrayBuffer>;
}

export function isBlob(value: unknown): value is BlobBody {
  return (
    typeof (value as Partial<BlobBody> | null | undefined)?.arrayBuffer === 'function' &&
    'size' in Object(value)
  );
}

/** See `read-blob.ts`. */
export async function readBlob(blob: BlobBody, maxSize: number): Promise<Uint8Array> {
  const reader = await import('./read-blob.js');
  return await reader.readBlob(blob, maxSize);
}
