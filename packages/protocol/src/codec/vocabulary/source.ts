import { cryptoSuite } from '#crypto';
import { toHex } from '../../base/bytes.js';
import { EncodingName } from '../../base/constants.js';
import { ProtocolError } from '../../base/errors.js';
import {
  parseByteCharacters,
  parsePackedRanks,
  parseTiktokenFile,
  writeTiktokenFile,
} from '../../tokenizer/ranks.js';
import type { TokenList } from '../../tokenizer/token-table.js';
import { VOCABULARIES, type Vocabulary } from '../../tokenizer/vocabulary.js';

/**
 * Gets the tokens of a vocabulary from a package, imported at its first use, or from chunks of its
 * `.tiktoken` file. In both cases they must have the vocabulary's hash.
 */

/** Chunks of a `.tiktoken` file, such as the body of a `fetch`. */
export type VocabularySource = AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

/** The package with the tokens of each vocabulary, and the module in it. */
const PACKAGES: Readonly<Record<EncodingName, { readonly name: string; readonly specifier: string }>> = {
  CL100K_BASE: { name: 'js-tiktoken', specifier: 'js-tiktoken/ranks/cl100k_base' },
  O200K_BASE: { name: 'js-tiktoken', specifier: 'js-tiktoken/ranks/o200k_base' },
  LLAMA_BPE: { name: 'llama3-tokenizer-js', specifier: 'llama3-tokenizer-js' },
};

/**
 * The tokens of the installed package.
 *
 * @throws {ProtocolError} `vocabulary_unavailable`, `vocabulary_mismatch`.
 */
export async function importTokens(vocabulary: Vocabulary): Promise<TokenList> {
  const parse = await importPackage(vocabulary);
  const tokens = parse();
  verify(vocabulary, tokens);
  return tokens;
}

/** Whether `importTokens` would find its package. If the runtime cannot resolve packages, this loads it. */
export async function isPackageInstalled(name: EncodingName): Promise<boolean> {
  const { resolve } = import.meta as { resolve?: (specifier: string) => string };
  try {
    if (resolve?.(PACKAGES[name].specifier) !== undefined) return true;
  } catch {
    // Not installed, or bundled; only `import` can find out.
  }
  return importPackage(VOCABULARIES[name]).then(
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
  const hash = toHex(cryptoSuite.sha256(writeTiktokenFile(tokens)));
  if (hash !== vocabulary.hash) throw mismatch(vocabulary, `have the hash ${hash}`);
}

function mismatch(vocabulary: Vocabulary, what: string): ProtocolError {
  return new ProtocolError(
    'vocabulary_mismatch',
    `the data for ${vocabulary.name} ${what}; expected ${vocabulary.fileSize} bytes of SHA-256 ${vocabulary.hash}`,
  );
}

/**
 * Bundlers build without an optional package only if its `import` is written with a literal name, directly
 * within `try`: for Metro, in no block of its own.
 *
 * @returns a function that parses the data of the package.
 */
async function importPackage({ name, ordinary }: Vocabulary): Promise<() => TokenList> {
  try {
    if (name === EncodingName.CL100K_BASE) return unpacked(await import('js-tiktoken/ranks/cl100k_base'));
    if (name === EncodingName.O200K_BASE) return unpacked(await import('js-tiktoken/ranks/o200k_base'));
    const { default: tokenizer } = await import('llama3-tokenizer-js');
    return () => parseByteCharacters(tokenizer.vocabById.slice(0, ordinary));
  } catch (cause) {
    const needed = PACKAGES[name].name;
    throw new ProtocolError(
      'vocabulary_unavailable',
      `${name} needs the package ${needed}: npm install ${needed}`,
      { cause },
    );
  }
}

function unpacked(imported: typeof import('js-tiktoken/ranks/o200k_base')): () => TokenList {
  return () => parsePackedRanks(imported.default.bpe_ranks);
}
