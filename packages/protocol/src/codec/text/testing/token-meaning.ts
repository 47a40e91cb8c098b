import { decodeToken, encodeToken } from '../token.js';

/** The defaults of section 5.3.5. */
export const DEFAULTS = {
  temperature: 1,
  top_p: 1,
  n: 1,
  stream: false,
  frequency_penalty: 0,
  presence_penalty: 0,
  logit_bias: {},
  stop: null,
};

/** The value of `json` as T1 guarantees it after decoding: requests have all defaults written out. */
export function withDefaults(json: string): unknown {
  const value: unknown = JSON.parse(json);
  const isRequest =
    typeof value === 'object' &&
    value !== null &&
    Object.hasOwn(value, 'messages') &&
    Array.isArray((value as { messages: unknown }).messages);
  if (!isRequest) return value;
  const missing = Object.entries(DEFAULTS).filter(([key]) => !Object.hasOwn(value, key));
  return { ...value, ...Object.fromEntries(missing) };
}

/** The value of `json` after encoding and decoding. */
export function reread(json: string): unknown {
  return JSON.parse(decodeToken(encodeToken(json)));
}
