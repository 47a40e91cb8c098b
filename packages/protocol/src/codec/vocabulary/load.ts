import { notify } from '../../base/callbacks.js';
import type { EncodingName } from '../../base/constants.js';
import { ProtocolError } from '../../base/errors.js';
import { withResolvers } from '../../base/resolvers.js';
import { unlessAborted } from '../../base/when-aborted.js';
import { createEncoding, type Encoding } from '../../tokenizer/encoding.js';
import { loadedEncodings as encodings } from '../../tokenizer/loaded.js';
import { type TokenList, TokenTable } from '../../tokenizer/token-table.js';
import { VOCABULARIES, type Vocabulary } from '../../tokenizer/vocabulary.js';
import { importTokens, isPackageInstalled, readTokens, type VocabularySource } from './source.js';

/** Loads each vocabulary once, at its first use. */

export interface LoadProgress {
  /** Bytes of the vocabulary's `.tiktoken` file. */
  readonly loaded: number;
  readonly total: number;
}

export interface LoadOptions {
  /** Rejects this call with the signal's reason; the load continues for other callers that wait for it. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Called at the beginning, after each chunk of a `source`, and at the end. A package arrives in one piece,
   * so a page that shows progress should serve the file itself and pass its body as `source`. Its errors reject
   * this call.
   */
  readonly onProgress?: ((progress: LoadProgress) => void) | undefined;
  /**
   * Chunks of the vocabulary's `.tiktoken` file (Llama 3: `tokenizer.model`), such as the body of a `fetch`.
   * Ignored if the encoding is already loaded or loading. @default the installed package
   */
  readonly source?: VocabularySource | undefined;
}

/** Does not throw. */
type ProgressListener = (progress: LoadProgress) => void;

interface Load {
  readonly promise: Promise<Encoding>;
  readonly listeners: Set<ProgressListener>;
  /** Callers that have not aborted. */
  readonly waiting: Set<object>;
}

const loads = new Map<EncodingName, Load>();
const tables = new Map<Vocabulary['table'], TokenTable>();

/** The encoding, if `loadEncoding` has loaded it. */
export function getEncoding(name: EncodingName): Encoding | undefined {
  return encodings.get(name);
}

/** Whether the vocabulary is loaded, or its package is installed. */
export async function isEncodingAvailable(name: EncodingName): Promise<boolean> {
  return encodings.has(name) || (Object.hasOwn(VOCABULARIES, name) && (await isPackageInstalled(name)));
}

/**
 * Loads a vocabulary once: concurrent calls share the load, and later ones get the same encoding. After a
 * failure the next call tries again.
 *
 * @throws {ProtocolError} `vocabulary_unavailable` if its package is not installed or does not load;
 * `vocabulary_mismatch` if the data is not that of this vocabulary; `invalid_argument` for an unknown name.
 */
export async function loadEncoding(name: EncodingName, options: LoadOptions = {}): Promise<Encoding> {
  const { signal, onProgress } = options;
  signal?.throwIfAborted();
  const present = encodings.get(name);
  if (present !== undefined) return present;
  if (!Object.hasOwn(VOCABULARIES, name)) {
    throw new ProtocolError(
      'invalid_argument',
      `unknown encoding ${JSON.stringify(name)}; known encodings: ${Object.keys(VOCABULARIES).join(', ')}`,
    );
  }
  const load = loads.get(name) ?? startLoad(VOCABULARIES[name], options.source);
  const caller = {};
  load.waiting.add(caller);
  // Other callers wait for the same load.
  const { promise: failed, reject: fail } = withResolvers<never>();
  const listener: ProgressListener = (progress) => notify(() => onProgress?.(progress), fail);
  load.listeners.add(listener);
  try {
    return await Promise.race([unlessAborted(load.promise, signal), failed]);
  } finally {
    load.waiting.delete(caller);
    load.listeners.delete(listener);
  }
}

function startLoad(vocabulary: Vocabulary, source: VocabularySource | undefined): Load {
  const listeners = new Set<ProgressListener>();
  const waiting = new Set<object>();
  const report = (bytes: number) => {
    for (const listener of listeners) listener({ loaded: bytes, total: vocabulary.fileSize });
  };
  const run = async () => {
    // Wait a turn, so that the caller has registered its listener.
    await undefined;
    try {
      report(0);
      const table = await loadTable(vocabulary, () =>
        source === undefined
          ? importTokens(vocabulary)
          : readTokens(vocabulary, source, report, () => waiting.size > 0),
      );
      const encoding = createEncoding(vocabulary, table);
      encodings.set(vocabulary.name, encoding);
      report(vocabulary.fileSize);
      return encoding;
    } finally {
      loads.delete(vocabulary.name);
    }
  };
  const load = { promise: run(), listeners, waiting };
  loads.set(vocabulary.name, load);
  return load;
}

/** The table with the vocabulary's tokens; calls `obtain` if they are not in it yet. */
async function loadTable(vocabulary: Vocabulary, obtain: () => Promise<TokenList>): Promise<TokenTable> {
  const present = tables.get(vocabulary.table);
  if (present !== undefined && present.size >= vocabulary.ordinary) return present;
  const tokens = await obtain();
  // Another vocabulary of this table may have been loaded meanwhile; both have the same tokens as far as they
  // go.
  const table = tables.get(vocabulary.table) ?? new TokenTable();
  if (table.size < vocabulary.ordinary) table.extend(tokens);
  tables.set(vocabulary.table, table);
  return table;
}
