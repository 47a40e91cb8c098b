import type { EncodingName } from '../base/constants.js';

/**
 * SHA-256, in hexadecimal, of each vocabulary's `.tiktoken` file (Llama 3: `tokenizer.model`). HELLO states them, so
 * they are known without loading the tokenizer.
 */
export const VOCABULARY_HASHES: Readonly<Record<EncodingName, string>> = {
  CL100K_BASE: '223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7',
  O200K_BASE: '446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d',
  LLAMA_BPE: '82e9d31979e92ab929cd544440f129d9ecd797b69e327f80f17e1c50d5551b55',
};
