import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { errorCode } from '../../testing/error-code.js';
import { decodeMetadata, encodeMetadata, type Metadata } from '../messages/metadata.js';
import {
  decodeHttpRequest,
  decodeHttpResponse,
  decodeIncoming,
  decodePull,
  encodeHttpRequest,
  encodeHttpResponse,
  encodePull,
} from './head.js';

/** The metadata that the peer receives. */
const carried = (metadata: Metadata): Metadata => decodeMetadata(encodeMetadata(metadata, Infinity), 32);

const names = fc.stringMatching(/^[a-z0-9][a-z0-9._-]{0,20}$/);
const values = fc.stringMatching(/^[\t\x20-\x7e\x80-\xff]{0,40}$/);
const headers = fc.array(fc.tuple(names, values), { maxLength: 8 }).map((entries) => new Map(entries));

describe('a request head', () => {
  it('is decoded as it was encoded', () => {
    const heads = fc.record({
      method: fc.constantFrom('POST', 'GET', 'DELETE'),
      path: fc.stringMatching(/^\/[!-~]{0,40}$/),
      headers,
    });
    fc.assert(
      fc.property(heads, (head) => {
        expect(decodeHttpRequest(carried(encodeHttpRequest(head)))).toEqual(head);
      }),
    );
  });

  it('of a common request is short', () => {
    const metadata = encodeHttpRequest({ path: '/v1/chat/completions' });
    expect(encodeMetadata(metadata, Infinity)).toHaveLength(33);
    expect(decodeHttpRequest(carried(metadata))).toEqual({
      method: 'POST',
      path: '/v1/chat/completions',
      headers: new Map(),
    });
  });

  it('is undefined without metadata for HTTP', () => {
    for (const metadata of [{}, { http: null }, { other: 1 }])
      expect(decodeHttpRequest(metadata)).toBeUndefined();
  });

  it.each([
    ['a value that is not a map', 1],
    ['no path', {}],
    ['a path of another type', { path: ['/'] }],
    ['a relative path', { path: 'v1' }],
    ['a path with a space', { path: '/a b' }],
    ['a path that ends the request line', { path: '/ HTTP/1.1\r\nx: y' }],
    ['a path that is not ASCII', { path: '/ä' }],
    ['a method in small letters', { path: '/', method: 'get' }],
    ['an endless method', { path: '/', method: 'A'.repeat(17) }],
    ['a method of another type', { path: '/', method: 1 }],
    ['headers that are not a map', { path: '/', headers: ['a'] }],
    ['a header that is not text', { path: '/', headers: { a: 1 } }],
    ['a header that ends its line', { path: '/', headers: { a: 'b\r\nc: d' } }],
    ['a header value that does not fit into bytes', { path: '/', headers: { a: '世' } }],
    ['a header with capitals', { path: '/', headers: { A: 'b' } }],
    ['a header named like a property', { path: '/', headers: { ['__proto__']: 'b' } }],
  ])('with %s is refused', (_name, http) => {
    expect(errorCode(() => decodeHttpRequest({ http: http as never }))).toBe('bad_message');
  });

  it.each([
    ['path', 2048, (n: number) => ({ path: `/${'a'.repeat(n - 1)}` })],
    ['header value', 4096, (n: number) => ({ path: '/', headers: new Map([['a', 'x'.repeat(n)]]) })],
    ['header name', 64, (n: number) => ({ path: '/', headers: new Map([['a'.repeat(n), 'x']]) })],
    [
      'number of headers',
      64,
      (n: number) => ({ path: '/', headers: new Map(Array.from({ length: n }, (_, i) => [`h${i}`, ''])) }),
    ],
  ])('whose %s is at its limit is accepted, and one more is refused', (_name, limit, head) => {
    expect(decodeHttpRequest(encodeHttpRequest(head(limit)))).toMatchObject(head(limit));
    expect(errorCode(() => encodeHttpRequest(head(limit + 1)))).toBe('invalid_argument');
  });
});

describe('a response head', () => {
  it('is decoded as it was encoded', () => {
    fc.assert(
      fc.property(fc.record({ status: fc.integer({ min: 200, max: 599 }), headers }), (head) => {
        expect(decodeHttpResponse(carried(encodeHttpResponse(head)))).toEqual(head);
      }),
    );
    expect(decodeHttpResponse({})).toBeUndefined();
  });

  it.each([199, 600, 200.5, Number.NaN, '200', null, undefined])('of status %s is refused', (status) => {
    expect(errorCode(() => encodeHttpResponse({ status: status as number }))).toBe('invalid_argument');
    expect(errorCode(() => decodeHttpResponse({ http: { status: status as number } }))).toBe('bad_message');
  });
});

describe('the head of a request with a streamed body', () => {
  it('is decoded as it was encoded, and is none for an end that knows no streamed bodies', () => {
    const head = { method: 'PUT', path: '/files?a', headers: new Map([['a', 'b']]) };
    const metadata = carried(encodeHttpRequest(head, 7));
    expect(metadata).toEqual({
      http: { method: 'PUT', upload: { id: 7, path: '/files?a' }, headers: { a: 'b' } },
    });
    expect(decodeIncoming(metadata)).toEqual({ ...head, upload: 7 });
    expect(errorCode(() => decodeHttpRequest(metadata))).toBe('bad_message');
    expect(decodeIncoming(encodeHttpRequest(head))).toEqual({ ...head, upload: undefined });
    expect(decodeIncoming({})).toBeUndefined();
  });

  it.each([
    ['no ID', { path: '/' }],
    ['the ID 0', { id: 0, path: '/' }],
    ['an ID of another type', { id: '1', path: '/' }],
    ['a broken ID', { id: 1.5, path: '/' }],
    ['no path', { id: 1 }],
    ['a relative path', { id: 1, path: 'x' }],
    ['another type', 1],
  ])('with %s is refused', (_name, upload) => {
    expect(errorCode(() => decodeIncoming({ http: { upload } as never }))).toBe('bad_message');
  });

  it('is asked for by its ID', () => {
    expect(carried(encodePull(7))).toEqual({ http: { pull: 7 } });
    expect(decodePull(encodePull(7))).toBe(7);
    for (const metadata of [{}, { http: null }, { http: 1 }, { http: {} }, { http: { path: '/' } }])
      expect(decodePull(metadata)).toBeUndefined();
    for (const pull of [0, -1, 1.5, '1', {}]) expect(decodePull({ http: { pull } as never })).toBe(0);
  });
});
