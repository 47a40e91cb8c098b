import fc from 'fast-check';
import type { M2MSecurity } from '../codec/m2m/security.js';

export const key = Uint8Array.from({ length: 32 }, (_, i) => i);
export const HMAC: M2MSecurity = { mode: 'HMAC', key };
export const AEAD: M2MSecurity = { mode: 'AEAD', key };
export const PREFIX = 7;
export const SMALL = '{"model":"gpt-4o","messages":[{"role":"user","content":"Hi"}],"max_tokens":50}';
export const LARGE = JSON.stringify({
  model: 'gpt-4o',
  messages: [{ role: 'user', content: 'The quick brown fox jumps over the lazy dog. '.repeat(4) }],
});

// --- shapes of real traffic, with any subset of the optional fields

const text = fc.string({ unit: 'grapheme', maxLength: 60 });
export const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });
const count = fc.oneof(fc.nat(5000), fc.constantFrom(0, 127, 128, 2 ** 32 - 1));
const part = fc.oneof(
  fc.record({ type: fc.constant('text'), text }),
  fc.record({ type: fc.constant('image_url'), image_url: fc.record({ url: text }) }),
);
const message = fc.record({
  role: fc.constantFrom('system', 'developer', 'user', 'assistant', 'tool'),
  content: fc.oneof(text, fc.array(part, { maxLength: 3 }), fc.constant(null)),
});
export const request = fc.record(
  {
    model: fc.oneof(fc.constantFrom('gpt-4o', 'o3-mini', 'claude-3-opus-20240229', 'm'), text),
    messages: fc.array(message, { maxLength: 12 }),
    max_tokens: fc.oneof(count, fc.constantFrom(null, -1, 1.5, 2 ** 32, '5')),
    max_completion_tokens: count,
    ...Object.fromEntries(
      'tools tool_choice functions function_call stream response_format reasoning_effort service_tier seed logprobs user temperature top_p stop'
        .split(' ')
        .map((name) => [name, fc.constantFrom<unknown>(null, true, false, 1, 'x', [], {})]),
    ),
  },
  { requiredKeys: ['model', 'messages'] },
);
export const response = fc.record(
  {
    id: fc.oneof(text, fc.constant('chatcmpl-1')),
    model: text,
    choices: fc.array(
      fc.record(
        {
          message: fc.record({ content: text, refusal: maybe(text), tool_calls: maybe(fc.constant([])) }),
          finish_reason: fc.constantFrom('stop', 'length', 'tool_calls', 'content_filter', 'other', null),
        },
        { requiredKeys: [] },
      ),
      { maxLength: 3 },
    ),
    usage: fc.record(
      {
        prompt_tokens: count,
        completion_tokens: count,
        prompt_tokens_details: fc.record({ cached_tokens: count }, { requiredKeys: [] }),
        completion_tokens_details: fc.record({ reasoning_tokens: count }, { requiredKeys: [] }),
      },
      { requiredKeys: [] },
    ),
  },
  { requiredKeys: ['choices'] },
);
export const security = maybe(fc.constantFrom(HMAC, AEAD));
export const defined = <T extends object>(options: T) =>
  Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: NonNullable<T[K]>;
  };
