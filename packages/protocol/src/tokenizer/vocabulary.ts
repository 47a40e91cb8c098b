import { EncodingName } from '../base/constants.js';
import { VOCABULARY_HASHES } from './hashes.js';
import type { Pattern } from './scanner.js';
import type { Reading } from './unicode.js';

/**
 * The facts about each vocabulary that are known before its tokens are loaded. The ordinary tokens come from
 * a package or a file and must have this hash.
 */
export interface Vocabulary {
  readonly name: EncodingName;
  /** SHA-256, in hexadecimal, of the vocabulary's `.tiktoken` file (Llama 3: `tokenizer.model`). */
  readonly hash: string;
  /** Bytes of that file. */
  readonly fileSize: number;
  /** The number of ordinary tokens. Their IDs are their ranks, from 0 up to this. */
  readonly ordinary: number;
  /**
   * Every token below this ID is the result of merging its bytes; those above are checked when they are
   * loaded.
   */
  readonly mergeable: number;
  /** One more than the largest ID, special tokens and holes included. */
  readonly size: number;
  /** Special tokens by ID. Encoding never yields them. */
  readonly specials: ReadonlyMap<number, string>;
  /** Vocabularies with the same table have the same tokens, up to the end of the shorter one. */
  readonly table: 'cl100k' | 'o200k';
  readonly pattern: Pattern;
  /** Which reading of the pattern defines the IDs. */
  readonly reading: Reading;
}

const CL100K_SPECIALS: readonly (readonly [number, string])[] = [
  [100257, '<|endoftext|>'],
  [100258, '<|fim_prefix|>'],
  [100259, '<|fim_middle|>'],
  [100260, '<|fim_suffix|>'],
  [100276, '<|endofprompt|>'],
];

const O200K_SPECIALS: readonly (readonly [number, string])[] = [
  [199999, '<|endoftext|>'],
  [200018, '<|endofprompt|>'],
];

const LLAMA_ORDINARY = 128_000;
const LLAMA_SPECIALS = 256;
/** The named special tokens of Llama 3.1; the others are reserved and numbered. */
const LLAMA_NAMED = [
  '<|begin_of_text|>',
  '<|end_of_text|>',
  '<|reserved_special_token_0|>',
  '<|reserved_special_token_1|>',
  '<|finetune_right_pad_id|>',
  '<|reserved_special_token_2|>',
  '<|start_header_id|>',
  '<|end_header_id|>',
  '<|eom_id|>',
  '<|eot_id|>',
  '<|python_tag|>',
] as const;
const LLAMA_FIRST_RESERVED = 3;

export const VOCABULARIES: Readonly<Record<EncodingName, Vocabulary>> = {
  CL100K_BASE: {
    name: EncodingName.CL100K_BASE,
    hash: VOCABULARY_HASHES.CL100K_BASE,
    fileSize: 1_681_126,
    ordinary: 100_256,
    mergeable: 100_256,
    size: 100_277,
    specials: new Map(CL100K_SPECIALS),
    table: 'cl100k',
    pattern: 'cl100k',
    reading: 'rust',
  },
  O200K_BASE: {
    name: EncodingName.O200K_BASE,
    hash: VOCABULARY_HASHES.O200K_BASE,
    fileSize: 3_613_922,
    ordinary: 199_998,
    mergeable: 199_998,
    size: 200_019,
    specials: new Map(O200K_SPECIALS),
    table: 'o200k',
    pattern: 'o200k',
    reading: 'rust',
  },
  LLAMA_BPE: {
    name: EncodingName.LLAMA_BPE,
    hash: VOCABULARY_HASHES.LLAMA_BPE,
    fileSize: 2_183_982,
    ordinary: LLAMA_ORDINARY,
    mergeable: 100_256,
    size: LLAMA_ORDINARY + LLAMA_SPECIALS,
    specials: new Map(
      Array.from({ length: LLAMA_SPECIALS }, (_, i) => [
        LLAMA_ORDINARY + i,
        LLAMA_NAMED[i] ?? `<|reserved_special_token_${i - LLAMA_NAMED.length + LLAMA_FIRST_RESERVED}|>`,
      ]),
    ),
    table: 'cl100k',
    pattern: 'cl100k',
    reading: 'rust',
  },
};
