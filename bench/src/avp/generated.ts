import { randomFillSync } from 'node:crypto';

/** Bytes of a chunk, and of a frame of the baseline. */
export const CHUNK_SIZE = 256 * 1024;

/** Yields `total` bytes from one buffer, which is changed a little and yielded again and again. */
export function* generate(total: number): Generator<Uint8Array> {
  const chunk = randomFillSync(new Uint8Array(CHUNK_SIZE));
  const counter = new DataView(chunk.buffer);
  for (let at = 0; at < total; at += CHUNK_SIZE) {
    counter.setFloat64(0, at);
    yield total - at < CHUNK_SIZE ? chunk.subarray(0, total - at) : chunk;
  }
}
