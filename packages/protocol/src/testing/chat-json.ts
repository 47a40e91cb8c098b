import fc from 'fast-check';

/** Arbitraries for JSON bodies: chat requests, responses, stream chunks, and any other value. */

type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

const text = fc.string({ unit: 'grapheme', maxLength: 60 });
const numbers = fc.oneof(
  fc.integer(),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((n) => n + 0),
);

/** Long and short names from the tables of every codec, and names with a special meaning in JavaScript. */
const knownKeys = fc.constantFrom(
  ...'messages message model role content name n tool_calls tool_choice function_call functions tools'.split(
    ' ',
  ),
  ...'choices delta index finish_reason usage temperature top_p stream stop logit_bias arguments'.split(' '),
  ...'m M r c n tc fc fs ts C d i fr U T p s S lb a t fn u x f P se rf lp pt ct tt'.split(' '),
  ...'__proto__ constructor toString length'.split(' '),
);

/** Any JSON value; some of its keys are known to the codecs. */
export const anyJson: fc.Arbitrary<Json> = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constant(null),
    fc.boolean(),
    numbers,
    text,
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(fc.oneof(knownKeys, text), tie('value'), { maxKeys: 5 }) as fc.Arbitrary<Json>,
  ),
})).value;

const role = fc.constantFrom('system', 'user', 'assistant', 'tool', 'function', 'developer');
const model = fc.constantFrom('gpt-4o', 'gpt-4', 'o1', 'o3-mini', 'meta-llama/llama-3.1-8b', 'claude-x');

const toolCall = fc.record(
  {
    index: fc.nat(9),
    id: fc.string({ maxLength: 8 }),
    type: fc.constant('function'),
    function: fc.record({
      name: fc.stringMatching(/^[a-z_]{1,12}$/),
      arguments: anyJson.map((v) => JSON.stringify(v)),
    }),
  },
  { requiredKeys: ['id', 'type', 'function'] },
);

const message = fc.record(
  {
    role,
    content: fc.oneof(text, fc.constant(null), fc.array(anyJson, { maxLength: 3 })),
    name: fc.string({ minLength: 1, maxLength: 10 }),
    tool_calls: fc.array(toolCall, { maxLength: 2 }),
    tool_call_id: fc.string({ maxLength: 8 }),
  },
  { requiredKeys: ['role', 'content'] },
);

export const chatRequest = fc.record(
  {
    model,
    messages: fc.array(message, { maxLength: 4 }),
    temperature: fc.constantFrom(0, 0.7, 1, 2),
    top_p: fc.constantFrom(0.5, 1),
    n: fc.constantFrom(1, 2),
    stream: fc.boolean(),
    stop: fc.oneof(fc.constant(null), text, fc.array(text, { maxLength: 2 })),
    max_tokens: fc.nat(),
    frequency_penalty: fc.constantFrom(0, 0.5, -1),
    presence_penalty: fc.constantFrom(0, 1.5),
    logit_bias: fc.constantFrom({}, { '50256': -100 }),
    user: text,
    seed: fc.integer(),
    tools: fc.array(
      fc.record({
        type: fc.constant('function'),
        function: fc.record({
          name: fc.stringMatching(/^[a-z_]{1,12}$/),
          description: text,
          parameters: anyJson,
        }),
      }),
      { maxLength: 2 },
    ),
    tool_choice: fc.oneof(
      fc.constantFrom('auto', 'none'),
      fc.constant({ type: 'function', function: { name: 'search' } }),
    ),
    response_format: fc.constantFrom(
      { type: 'text' },
      { type: 'json_schema', json_schema: { name: 'n', t: 1 } },
    ),
    metadata: anyJson,
  },
  { requiredKeys: ['model', 'messages'] },
);

const finishReason = fc.constantFrom('stop', 'length', 'tool_calls', 'content_filter', 'function_call', null);
const head = {
  id: fc.string({ maxLength: 12 }),
  object: fc.constant('chat.completion'),
  created: fc.nat(),
  model,
};

export const chatResponse = fc.record(
  {
    ...head,
    choices: fc.array(
      fc.record({ index: fc.nat(3), message, logprobs: fc.constant(null), finish_reason: finishReason }),
      { maxLength: 3 },
    ),
    usage: fc.record({ prompt_tokens: fc.nat(), completion_tokens: fc.nat(), total_tokens: fc.nat() }),
  },
  { requiredKeys: ['id', 'model', 'choices'] },
);

export const chatChunk = fc.record({
  ...head,
  choices: fc.array(
    fc.record({
      index: fc.nat(3),
      delta: fc.record(
        { role, content: text, tool_calls: fc.array(toolCall, { maxLength: 1 }) },
        { requiredKeys: [] },
      ),
      finish_reason: finishReason,
    }),
    { maxLength: 2 },
  ),
});

/** Chat traffic as values. */
export const chatValue: fc.Arbitrary<unknown> = fc.oneof(chatRequest, chatResponse, chatChunk);

/** The same as text, compact or with whitespace. */
export const chatJson: fc.Arbitrary<string> = fc
  .tuple(chatValue, fc.constantFrom(undefined, 1, '\t', '\r\n '))
  .map(([value, space]) => JSON.stringify(value, null, space));
