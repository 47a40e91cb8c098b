import { platform } from '#platform';
import { Algorithm } from '../base/constants.js';
import { isEncodingAvailable } from '../codec/vocabulary/load.js';
import { type CapabilityOptions, DEFAULT_ALGORITHMS, DEFAULT_ENCODINGS } from './options.js';

/**
 * The defaults of a client on Node for what its options leave open, without what is not installed: the
 * vocabularies of missing packages, TOKEN_NATIVE without a vocabulary, and context without zstd, whose file
 * bundlers leave behind. Anything that the options name stays, and fails when it is loaded.
 */
export async function installedDefaults(options: CapabilityOptions): Promise<CapabilityOptions> {
  const { algorithms, encodings, extensions } = options;
  const isNamed = encodings !== undefined || algorithms?.includes(Algorithm.TOKEN_NATIVE) === true;
  return {
    ...(isNamed ? {} : await installedVocabularies(algorithms)),
    ...(extensions?.['context'] === undefined && !(await hasZstd())
      ? { extensions: { ...extensions, context: false } }
      : {}),
  };
}

async function installedVocabularies(
  algorithms: readonly Algorithm[] | undefined,
): Promise<CapabilityOptions> {
  const found = await Promise.all(DEFAULT_ENCODINGS.map(isEncodingAvailable));
  const encodings = DEFAULT_ENCODINGS.filter((_, i) => found[i]);
  if (encodings.length > 0) return { encodings };
  return {
    encodings,
    algorithms: algorithms ?? DEFAULT_ALGORITHMS.filter((name) => name !== Algorithm.TOKEN_NATIVE),
  };
}

function hasZstd(): Promise<boolean> {
  return platform.loadZstd().then(
    () => true,
    () => false,
  );
}
