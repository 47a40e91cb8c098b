import type { EncodingName } from '../base/constants.js';
import type { Encoding } from './encoding.js';

/** The encodings whose vocabulary is loaded. They can be looked up without loading the tokenizer. */
export const loadedEncodings = new Map<EncodingName, Encoding>();
