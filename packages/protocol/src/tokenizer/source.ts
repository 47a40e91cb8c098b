import { cryptoSuite } from '#crypto';
import { EncodingName } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import { parseByteCharacters, parsePackedRanks, parseTiktokenFile, writeTiktokenFile } from './ranks.js';
import type { TokenList } from './token-table.js';
import type { Vocabulary } from './vocabulary.js';

/**
 * Gets the tokens of a vocabulary from a package, imported at its first use, or from chunks of its
 * `.tiktoken` file. In both cases they must have the vocabulary's hash.
 */

/** Chunks of a `.tiktoken` file, such as the body of a `fetch`. */
export type VocabularySource = AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

/**
 * The tokens of the installed package.
 *
 * @throws {ProtocolError} `vocabulary_unavailable`, `vocabulary_mismatch`.
 */
export async function importTokens(vocabulary: Vocabulary): Promise<TokenList> {
  let tokens: TokenList;
  switch (vocabulary.name) {
    case EncodingName.CL100K_BASE:
      tokens = parsePackedRanks((await imported(vocabulary, importCl100k)).bpe_ranks);
      break;
    case EncodingName.O200K_BASE:
      tokens = parsePackedRanks((await imported(vocabulary, importO200k)).bpe_ranks);
      break;
    case EncodingName.LLAMA_BPE:
      tokens = parseByteCharacters(
        (await imported(vocabulary, importLlama)).vocabById.slice(0, vocabulary.ordinary),
      );
      break;
  }
  verify(vocabulary, tokens);
  return tokens;
}

/** Whether `importTokens` would find its package. If the runtime cannot resolve packages, this loads it. */
export async function isPackageInstalled(name: EncodingName): Promise<boolean> {
  // The other encodings come from js-tiktoken, a regular dependency.
  if (name !== EncodingName.LLAMA_BPE) return true;
  const { resolve } = import.meta as { resolve?: (specifier: string) => string };
  try {
    if (resolve?.('llama3-tokenizer-js') !== undefined) return true;
  } catch {
    // Not installed, or bundled; only `import` can find out.
  }
  return importLlama().then(
    () => true,
    () => false,
  );
}

/**
 * Reads the tokens from a file.
 *
 * @param report receives the number of bytes so far, after every chunk.
 * @param isWanted asked before every chunk; false stops reading.
 * @throws {ProtocolError} `vocabulary_mismatch`, `cancelled`. Errors of the source pass through.
 */
export async function readTokens(
  vocabulary: Vocabulary,
  source: VocabularySource,
  report: (bytes: number) => void,
  isWanted: () => boolean,
): Promise<TokenList> {
  const file = new Uint8Array(vocabulary.fileSize);
  let length = 0;
  for await (const chunk of source) {
    if (!isWanted())
      throw new ProtocolError('cancelled', `every caller that waited for ${vocabulary.name} has aborted`);
    if (length + chunk.length > file.length) throw mismatch(vocabulary, 'are longer');
    file.set(chunk, length);
    length += chunk.length;
    report(length);
  }
  if (length < file.length) throw mismatch(vocabulary, 'are shorter');
  const tokens = parseTiktokenFile(file);
  verify(vocabulary, tokens);
  return tokens;
}

function verify(vocabulary: Vocabulary, tokens: TokenList): void {
  const digest = cryptoSuite.sha256(writeTiktokenFile(tokens));
  const hash = Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
  if (hash !== vocabulary.hash) throw mismatch(vocabulary, `have the hash ${hash}`);
}

function mismatch(vocabulary: Vocabulary, what: string): ProtocolError {
  return new ProtocolError(
    'vocabulary_mismatch',
    `the data for ${vocabulary.name} ${what}; expected ${vocabulary.fileSize} bytes of SHA-256 ${vocabulary.hash}`,
  );
}

async function imported<T>(vocabulary: Vocabulary, importData: () => Promise<T>): Promise<T> {
  try {
    return await importData();
  } catch (cause) {
    throw new ProtocolError(
      'vocabulary_unavailable',
      vocabulary.name === EncodingName.LLAMA_BPE
        ? 'LLAMA_BPE needs a `source` or the package llama3-tokenizer-js, which is not installed'
        : `the rank data of ${vocabulary.name} did not load`,
      { cause },
    );
  }
}

const importCl100k = async () => (await import('js-tiktoken/ranks/cl100k_base')).default;
const importO200k = async () => (await import('js-tiktoken/ranks/o200k_base')).default;
/** Bundlers report a missing package as an error unless the import has a `catch`. */
const importLlama = async () => (await import('llama3-tokenizer-js').catch(rethrow)).default;
const rethrow = (error: unknown): never => {
  throw error;
};
