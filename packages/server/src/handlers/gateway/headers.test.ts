import { expect, it } from 'vitest';
import { replyHeaders, requestHeaders } from './headers.js';
import { createSecret } from './secret.js';

const NOTHING = createSecret([]);

it('passes only client headers of the upstream', () => {
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
  expect(Object.fromEntries(replyHeaders(new Map(headers), NOTHING))).toEqual({
    'content-type': 'application/json',
    'x-ratelimit-remaining-tokens': '7',
    'retry-after': '3',
    'x-request-id': 'req_1',
  });
});

it('bounds the headers of the upstream', () => {
  const many = Array.from({ length: 50 }, (_, i): [string, string] => [`x-ratelimit-${i}`, 'x']);
  const kept = replyHeaders(new Map([...many, ['content-type', 'text/plain']]), NOTHING);
  expect(kept.size).toBe(24);
  expect(kept.get('content-type')).toBe('text/plain');
  const long = new Map([
    ['x-ratelimit-fits', 'x'.repeat(200)],
    ['x-ratelimit-does-not', 'x'.repeat(201)],
  ]);
  expect([...replyHeaders(long, NOTHING).keys()]).toEqual(['x-ratelimit-fits']);
});

it('drops client headers that identify the client or its account', () => {
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

it('hashes idempotency keys with the principal, always to the same value', () => {
  const key = (principal: string, value: string) =>
    new Map(requestHeaders(new Map([['idempotency-key', value]]), principal)).get('idempotency-key');
  expect(key('alice', 'once')).toBe(key('alice', 'once'));
  const others = [key('alice', 'twice'), key('bob', 'once'), key('', 'once'), key('alice","once', '')];
  expect(new Set([key('alice', 'once'), ...others]).size).toBe(5);
  // A principal cannot reuse the hashed key of another one.
  expect(key('bob', key('alice', 'once') ?? '')).not.toBe(key('alice', 'once'));
  expect(key('alice', 'once')).toMatch(/^[0-9a-f]{64}$/);
});
