import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createUsageCounter, type GatewayRequest, readTokenUsage } from './usage.js';

describe('what a response says of its usage', () => {
  const details = { prompt_tokens_details: { cached_tokens: 3 }, completion_tokens_details: {} };

  it.each([
    [
      'a completion',
      { usage: { prompt_tokens: 5, completion_tokens: 7, ...details }, fingerprint: 'x' },
      5,
      7,
    ],
    [
      'a response event',
      { type: 'x', response: { usage: { input_tokens: 5, output_tokens: 7 }, user: null } },
      5,
      7,
    ],
    [
      'a completion with a note behind it',
      { usage: { prompt_tokens: 5, completion_tokens: 7 }, metadata: { usage: 'x', a: '"usage":{' } },
      5,
      7,
    ],
    [
      'a completion with a note that looks like usage',
      { usage: { input_tokens: 5, output_tokens: 7 }, metadata: { usage: { prompt_tokens: 0 } } },
      5,
      7,
    ],
    [
      'an event with a note before and behind',
      {
        metadata: { usage: { prompt_tokens: 0 } },
        response: { metadata: { usage: 'x' }, usage: { input_tokens: 5, output_tokens: 7 }, tools: [] },
        metadata2: { usage: { prompt_tokens: 'x' } },
      },
      5,
      7,
    ],
    [
      'a completion with tools that are repeated',
      {
        tools: [{ properties: { usage: { prompt_tokens: 0 } } }],
        usage: { prompt_tokens: 5, completion_tokens: 7 },
        text: { format: { schema: { usage: { prompt_tokens: 0 } } } },
      },
      5,
      7,
    ],
    ['an object of the vendor', { x_groq: { usage: { prompt_tokens: 5, completion_tokens: 7 } } }, 5, 7],
    ['embeddings', { data: [[0.1]], usage: { prompt_tokens: 5, total_tokens: 5 } }, 5, 0],
  ])('is read from %s', (_what, json, promptTokens, completionTokens) => {
    expect(readTokenUsage(JSON.stringify(json))).toEqual({ promptTokens, completionTokens });
    expect(readTokenUsage(JSON.stringify(json, null, 2))).toEqual({ promptTokens, completionTokens });
  });

  it.each([
    ['nothing', ''],
    ['none', '{"choices":[]}'],
    ['null', '{"usage":null}'],
    ['words', '{"usage":{"prompt_tokens":"many"}}'],
    ['less than nothing', '{"usage":{"prompt_tokens":-1}}'],
    ['a half', '{"usage":{"prompt_tokens":0.5}}'],
    ['the beginning of one', '{"usage":{"prompt_tokens":1'],
    ['what is deep in it', '{"a":[{"usage":{"prompt_tokens":1}}]}'],
    ['a note of the client', '{"metadata":{"usage":{"prompt_tokens":1}}}'],
    ['words', '"usage":{"prompt_tokens":1}'],
    ['brackets', `"usage":{${']'.repeat(100)}`],
    ['text that looks like it', JSON.stringify({ content: '"usage":{"prompt_tokens":1}' })],
  ])('is not read from %s', (_what, json) => {
    expect(readTokenUsage(json)).toBeUndefined();
  });

  it('is found before all that a client may have repeated', () => {
    const metadata = Object.fromEntries(
      Array.from({ length: 16 }, (_, i) => [`usage${i}`, '\\"'.repeat(512)]),
    );
    const json = JSON.stringify({ usage: { prompt_tokens: 1 }, user: '\u0001'.repeat(512), metadata });
    expect(readTokenUsage(json)).toEqual({ promptTokens: 1, completionTokens: 0 });
  });

  it('is found beside everything else, and nothing else is taken for it', () => {
    fc.assert(
      fc.property(
        fc.jsonValue({ stringUnit: fc.constantFrom('"', '\\', '{', '}', ':', 'usage') }),
        fc.jsonValue({ maxDepth: 3 }),
        fc.nat(2),
        (before, behind, indent) => {
          const json = JSON.stringify(
            { b: [[before]], usage: { prompt_tokens: 9 }, z: [[behind]] },
            null,
            indent,
          );
          expect(readTokenUsage(json)).toEqual({ promptTokens: 9, completionTokens: 0 });
        },
      ),
    );
  });

  it('is found behind a megabyte', () => {
    const json = JSON.stringify({ data: 'x'.repeat(1_000_000), usage: { prompt_tokens: 1 } });
    expect(readTokenUsage(json)).toEqual({ promptTokens: 1, completionTokens: 0 });
  });
});

describe('the counter', () => {
  const request = (principal: string): GatewayRequest => ({
    principal,
    agentId: undefined,
    endpoint: '/chat/completions',
    model: 'm',
    status: 200,
    outcome: 'completed',
    tokens: { promptTokens: 2, completionTokens: 3 },
    requestBytes: 10,
    replyLength: 20,
    parts: 1,
    durationMs: 1,
  });

  it('keeps n principals, and of n + 1 forgets who was quiet for longest', () => {
    const usage = createUsageCounter(2);
    for (const principal of ['a', '__proto__', 'a']) usage.add(request(principal));
    expect([...usage.principals.keys()]).toEqual(['__proto__', 'a']);
    usage.add(request('b'));
    expect([...usage.principals.keys()]).toEqual(['a', 'b']);
    expect(usage.principals.get('a')).toMatchObject({ requests: 2, promptTokens: 4, completionTokens: 6 });
    expect(usage.total).toMatchObject({ requests: 4, requestBytes: 40 });
  });

  it('tells what failed, was cancelled, and what nobody told the tokens of', () => {
    const usage = createUsageCounter();
    usage.add({ ...request('a'), outcome: 'failed', tokens: undefined });
    usage.add({ ...request('a'), outcome: 'cancelled', tokens: undefined });
    usage.add(request('a'));
    expect(usage.total).toMatchObject({ requests: 3, failed: 1, cancelled: 1, unmetered: 2 });
  });
});
