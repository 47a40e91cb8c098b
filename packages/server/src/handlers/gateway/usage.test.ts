import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createUsageCounter, type GatewayRequest, readTokenUsage } from './usage.js';

describe('the usage of a response', () => {
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
      'a completion with metadata after it',
      { usage: { prompt_tokens: 5, completion_tokens: 7 }, metadata: { usage: 'x', a: '"usage":{' } },
      5,
      7,
    ],
    [
      'a completion with metadata that looks like usage',
      { usage: { input_tokens: 5, output_tokens: 7 }, metadata: { usage: { prompt_tokens: 0 } } },
      5,
      7,
    ],
    [
      'an event with metadata before and after it',
      {
        metadata: { usage: { prompt_tokens: 0 } },
        response: { metadata: { usage: 'x' }, usage: { input_tokens: 5, output_tokens: 7 }, tools: [] },
        metadata2: { usage: { prompt_tokens: 'x' } },
      },
      5,
      7,
    ],
    [
      'a completion that repeats its tools',
      {
        tools: [{ properties: { usage: { prompt_tokens: 0 } } }],
        usage: { prompt_tokens: 5, completion_tokens: 7 },
        text: { format: { schema: { usage: { prompt_tokens: 0 } } } },
      },
      5,
      7,
    ],
    ['an object added by a vendor', { x_groq: { usage: { prompt_tokens: 5, completion_tokens: 7 } } }, 5, 7],
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
    ['a negative number', '{"usage":{"prompt_tokens":-1}}'],
    ['a fraction', '{"usage":{"prompt_tokens":0.5}}'],
    ['a truncated one', '{"usage":{"prompt_tokens":1'],
    ['a deeper level', '{"a":[{"usage":{"prompt_tokens":1}}]}'],
    ['metadata of the client', '{"metadata":{"usage":{"prompt_tokens":1}}}'],
    ['words', '"usage":{"prompt_tokens":1}'],
    ['brackets', `"usage":{${']'.repeat(100)}`],
    ['text that looks like it', JSON.stringify({ content: '"usage":{"prompt_tokens":1}' })],
  ])('is not read from %s', (_what, json) => {
    expect(readTokenUsage(json)).toBeUndefined();
  });

  it('is found before the longest metadata of a client', () => {
    const metadata = Object.fromEntries(
      Array.from({ length: 16 }, (_, i) => [`usage${i}`, '\\"'.repeat(512)]),
    );
    const json = JSON.stringify({ usage: { prompt_tokens: 1 }, user: '\u0001'.repeat(512), metadata });
    expect(readTokenUsage(json)).toEqual({ promptTokens: 1, completionTokens: 0 });
  });

  it('is found next to any other content, and never mistaken', () => {
    fc.assert(
      fc.property(
        fc.jsonValue({ stringUnit: fc.constantFrom('"', '\\', '{', '}', ':', 'usage') }),
        fc.jsonValue({ maxDepth: 3 }),
        fc.nat(2),
        (before, after, indent) => {
          const json = JSON.stringify(
            { b: [[before]], usage: { prompt_tokens: 9 }, z: [[after]] },
            null,
            indent,
          );
          expect(readTokenUsage(json)).toEqual({ promptTokens: 9, completionTokens: 0 });
        },
      ),
    );
  });

  it('is found after a megabyte', () => {
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

  it('keeps n principals and forgets the least recently active one', () => {
    const usage = createUsageCounter(2);
    for (const principal of ['a', '__proto__', 'a']) usage.add(request(principal));
    expect([...usage.principals.keys()]).toEqual(['__proto__', 'a']);
    usage.add(request('b'));
    expect([...usage.principals.keys()]).toEqual(['a', 'b']);
    expect(usage.principals.get('a')).toMatchObject({ requests: 2, promptTokens: 4, completionTokens: 6 });
    expect(usage.total).toMatchObject({ requests: 4, requestBytes: 40 });
  });

  it('counts failed, cancelled and unmetered requests', () => {
    const usage = createUsageCounter();
    usage.add({ ...request('a'), outcome: 'failed', tokens: undefined });
    usage.add({ ...request('a'), outcome: 'cancelled', tokens: undefined });
    usage.add(request('a'));
    expect(usage.total).toMatchObject({ requests: 3, failed: 1, cancelled: 1, unmetered: 2 });
  });
});
