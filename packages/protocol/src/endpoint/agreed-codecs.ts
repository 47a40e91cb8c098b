import { platform } from '#platform';
import { type LoadableCodec, loadCodecs } from '../codec/load.js';
import type { Negotiated } from '../control/agreement.js';
import { getEncoding, loadEncoding } from '../tokenizer/load.js';

/** What two ends need loaded for what they agreed on. */

/** @param hasContext whether bodies are coded in context. */
export function isLoaded({ encoding }: Negotiated, hasContext: boolean): boolean {
  return (
    (encoding === null || getEncoding(encoding) !== undefined) && (!hasContext || platform.isZstdLoaded())
  );
}

/** Rejects where a file or module cannot be loaded. */
export async function load({ algorithms, encoding }: Negotiated, hasContext: boolean): Promise<void> {
  const codecs: LoadableCodec[] = hasContext ? [...algorithms, 'CONTEXT'] : [...algorithms];
  await Promise.all([loadCodecs(codecs), encoding === null ? undefined : loadEncoding(encoding)]);
}
