import { ProtocolError } from '../../base/errors.js';

/**
 * A page loads this with its first `Blob`.
 *
 * @param maxSize bytes.
 * @throws {ProtocolError} `message_too_large` before anything is read; `invalid_argument` if it cannot be read, such as a
 * file that has changed.
 */
export async function readBlob(
  blob: { readonly size: number; arrayBuffer(): Promise<ArrayBuffer> },
  maxSize: number,
): Promise<Uint8Array> {
  const { size } = blob;
  if (size > maxSize) {
    throw new ProtocolError(
      'message_too_large',
      `a Blob of ${size} bytes is more than the ${maxSize} of a message`,
    );
  }
  try {
    return new Uint8Array(await blob.arrayBuffer());
  } catch (cause) {
    throw new ProtocolError('invalid_argument', 'the Blob cannot be read', { cause });
  }
}
