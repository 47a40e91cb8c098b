import { codecs } from '#codecs';
import { platform } from '#platform';
import { Algorithm } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';

/**
 * The names that `loadCodecs` accepts: the algorithms, `AVP` for compressed tensors, and `CONTEXT` for
 * messages that are coded against earlier ones.
 */
export type LoadableCodec = Algorithm | 'AVP' | 'CONTEXT';

const LOADABLE: ReadonlySet<string> = new Set<LoadableCodec>([...Object.values(Algorithm), 'AVP', 'CONTEXT']);

/**
 * Loads the modules that the named codecs need, so that they can be used synchronously afterwards. Node has
 * nearly all of them built in; a page imports them, and Brotli is WebAssembly there. Safe to call repeatedly. Use `loadEncoding` to
 * load vocabularies.
 *
 * @throws {ProtocolError} `invalid_argument` for an unknown name; `codec_not_loaded` if a module could not be
 * fetched. The next call tries again.
 */
export async function loadCodecs(names: readonly LoadableCodec[]): Promise<void> {
  const unknown = names.find((name) => !LOADABLE.has(name));
  if (unknown !== undefined) {
    throw new ProtocolError(
      'invalid_argument',
      `unknown codec ${JSON.stringify(unknown)}; known codecs: ${[...LOADABLE].join(', ')}`,
    );
  }
  const loads: Promise<unknown>[] = [];
  if (names.includes(Algorithm.M2M) || names.includes(Algorithm.BROTLI)) loads.push(platform.loadBrotli());
  if (names.includes(Algorithm.M2M)) loads.push(codecs.m2m.load());
  if (names.includes(Algorithm.BROTLI)) loads.push(codecs.brotli.load());
  if (names.includes('AVP')) loads.push(platform.loadZstd(), codecs.avp.load());
  if (names.includes('CONTEXT')) loads.push(codecs.context.load());
  await Promise.all(loads);
}
