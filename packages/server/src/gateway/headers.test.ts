import { expect, it } from 'vitest';
import { replyHeaders, requestHeaders } from './headers.js';
import { createSecret } from './secret.js';

const NOTHING = createSecret([]);

it('of an upstream, only what is for clients passes', () => {
  const headers = new Headers({
    'content-type': 'application/json',
    'X-RateLimit-Remaining-Tokens': '7',
    'retry-after': '3',
    'x-request-id': 'req_1',
    'set-cookie': 'a=b',
    'openai-organization': 'org-ours',
    'content-encoding': 'gzip',
    'content-length': '9',
    server: 'x',
  });
  expect(Object.fromEntries(replyHeaders(headers, NOTHING))).toEqual({
    'content-type': 'application/json',
    'x-ratelimit-remaining-tokens': '7',
    'retry-after': '3',
    'x-request-id': 'req_1',
  });
});

it('of an upstream, no more passes than fits', () => {
  const many = new Headers(Array.from({ length: 50 }, (_, i): [string, string] => [`x-ratelimit-${i}`, 'x']));
  expect(replyHeaders(many, NOTHING).size).toBe(24);
  const long = new Headers([
    ['x-ratelimit-fits', 'x'.repeat(200)],
    ['x-ratelimit-does-not', 'x'.repeat(201)],
  ]);
  expect([...replyHeaders(long, NOTHING).keys()]).toEqual(['x-ratelimit-fits']);
});

it('of a client, nothing passes that says who it is or what else there is', () => {
  const given = [
    'authorization',
    'openai-organization',
    'openai-project',
    'host',
    'x-forwarded-for',
    'openai-beta',
  ];
  expect(requestHeaders(new Map(given.map((name) => [name, 'x'])), 'alice')).toEqual([['openai-beta', 'x']]);
});

it("an idempotency key is its principal's own, and stays the same", () => {
  const key = (principal: string, value: string) =>
    new Map(requestHeaders(new Map([['idempotency-key', value]]), principal)).get('idempotency-key');
  expect(key('alice', 'once')).toBe(key('alice', 'once'));
  const others = [key('alice', 'twice'), key('bob', 'once'), key('', 'once'), key('alice","once', '')];
  expect(new Set([key('alice', 'once'), ...others]).size).toBe(5);
  // What one principal is given as a key tells another one nothing that it could send.
  expect(key('bob', key('alice', 'once') ?? '')).not.toBe(key('alice', 'once'));
  expect(key('alice', 'once')).toMatch(/^[0-9a-f]{64}$/);
});
