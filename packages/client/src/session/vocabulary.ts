import type { EncodingName, LoadOptions } from '@parlance/protocol';
import { codecs } from '@parlance/protocol/client';

/**
 * Loads a vocabulary before sessions need it. In a page, sessions that begin afterwards offer TOKEN_NATIVE with it.
 *
 * @throws {ProtocolError} `vocabulary_unavailable` if its package is not installed or does not load;
 * `vocabulary_mismatch` if the data is not that of this vocabulary; `invalid_argument` for an unknown name;
 * `codec_not_loaded` if the tokenizer cannot be loaded. The reason of the signal after an abort.
 */
export async function loadEncoding(name: EncodingName, options?: LoadOptions): Promise<void> {
  const tokenizer = await codecs.tokenizer.load();
  await tokenizer.loadEncoding(name, options);
}
