import { type EncodingName, loadEncoding } from '@parlance/protocol';

/** Four tokenizers behind one interface. None of them looks for special tokens in the text. */
export interface Contestant {
  encode(text: string): ArrayLike<number>;
  decode(ids: ArrayLike<number>): string;
}

export const OURS = 'parlance';
export const PEERS = ['js-tiktoken', 'tiktoken', 'gpt-tokenizer'] as const;
export type ContestantName = typeof OURS | (typeof PEERS)[number];

export const ENCODINGS = {
  CL100K_BASE: 'cl100k_base',
  O200K_BASE: 'o200k_base',
} as const satisfies Partial<Record<EncodingName, string>>;
export type BenchEncoding = keyof typeof ENCODINGS;

/**
 * Loads a tokenizer's code, and returns a function that loads its vocabulary. The code of `tiktoken` is
 * WebAssembly that contains its vocabularies, so the second step loads all of it.
 */
export async function prepare(
  name: ContestantName,
  encoding: BenchEncoding,
): Promise<() => Promise<Contestant>> {
  const theirs = ENCODINGS[encoding];
  switch (name) {
    case OURS:
      return () => loadEncoding(encoding);
    case 'js-tiktoken': {
      const { Tiktoken } = await import('js-tiktoken/lite');
      return async () => {
        const { default: ranks } = await (theirs === 'cl100k_base'
          ? import('js-tiktoken/ranks/cl100k_base')
          : import('js-tiktoken/ranks/o200k_base'));
        const tokenizer = new Tiktoken(ranks);
        return {
          encode: (text) => tokenizer.encode(text, [], []),
          decode: (ids) => tokenizer.decode(ids as number[]),
        };
      };
    }
    case 'tiktoken':
      return async () => {
        const { get_encoding } = await import('tiktoken');
        const tokenizer = get_encoding(theirs);
        const utf8 = new TextDecoder();
        return {
          encode: (text) => tokenizer.encode_ordinary(text),
          decode: (ids) => utf8.decode(tokenizer.decode(ids as Uint32Array)),
        };
      };
    case 'gpt-tokenizer': {
      await import('gpt-tokenizer/GptEncoding');
      const options = { disallowedSpecial: new Set<string>() };
      return async () => {
        const tokenizer = await (theirs === 'cl100k_base'
          ? import('gpt-tokenizer/encoding/cl100k_base')
          : import('gpt-tokenizer/encoding/o200k_base'));
        return {
          encode: (text) => tokenizer.encode(text, options),
          decode: (ids) => tokenizer.decode(ids as number[]),
        };
      };
    }
  }
}
