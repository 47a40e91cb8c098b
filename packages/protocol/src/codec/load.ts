import { platform } from '#platform';
import { Algorithm } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';

/**
 * Codecs that a platform may have to load: the algorithms, `AVP` for compressed tensors, and `CONTEXT` for
 * messages that are coded against earlier ones.
 */
export type LoadableCodec = Algorithm | 'AVP' | 'CONTEXT';

const LOADABLE: ReadonlySet<string> = new Set<LoadableCodec>([...Object.values(Algorithm), 'AVP', 'CONTEXT']);

/**
 * Loads what the named codecs need, so that they can then be used synchronously. On Node nearly
 * everything is there already; a browser loads WebAssembly. Safe to call repeatedly. Vocabularies are
 * loaded by `loadEncoding`.
 *
 * @throws {ProtocolError} `invalid_argument` for a name that is no codec, `codec_not_loaded` where
 * something could not be fetched; calling again tries again.
 */
export async function loadCodecs(names: readonly LoadableCodec[]): Promise<void> {
  const unknown = names.find((name) => !LOADABLE.has(name));
  if (unknown !== undefined) {
    throw new ProtocolError(
      'invalid_argument',
      `there is no codec ${JSON.stringify(unknown)}; known are ${[...LOADABLE].join(', ')}`,
    );
  }
  const loads: Promise<void>[] = [];
  if (names.includes(Algorithm.M2M) || names.includes(Algorithm.BROTLI)) loads.push(platform.loadBrotli());
  if (names.includes('AVP') || names.includes('CONTEXT')) loads.push(platform.loadZstd());
  await Promise.all(loads);
}
