import { platform } from '#platform';
import { Algorithm } from '../constants.js';

/** Codecs that a platform may have to load: the algorithms, and `AVP` for compressed tensors. */
export type LoadableCodec = Algorithm | 'AVP';

/**
 * Loads what the named codecs need, so that they can then be used synchronously. On Node nearly
 * everything is there already; a browser loads WebAssembly. Safe to call repeatedly.
 */
export async function loadCodecs(names: readonly LoadableCodec[]): Promise<void> {
  const loads: Promise<void>[] = [];
  if (names.includes(Algorithm.M2M) || names.includes(Algorithm.BROTLI)) loads.push(platform.loadBrotli());
  if (names.includes('AVP')) loads.push(platform.loadZstd());
  await Promise.all(loads);
}
