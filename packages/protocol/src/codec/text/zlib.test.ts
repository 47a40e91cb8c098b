import { deflateSync, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { chatJson } from '../../testing/chat-json.js';
import { errorCode } from '../../testing/error-code.js';
import { encodeBase64 } from '../base64.js';
import { decodeZlib } from './zlib.js';

const wireOf = (bytes: Uint8Array) => `#M2M[v2.0]|DATA:${encodeBase64(bytes)}`;

it('decodes the output of zlib', () => {
  fc.assert(
    fc.property(
      fc.oneof(chatJson, fc.string({ unit: 'grapheme' })),
      fc.constantFrom(0, 1, 6, 9),
      (text, level) => {
        expect(decodeZlib(wireOf(deflateSync(text, { level })))).toBe(text);
      },
    ),
  );
});

it('refuses another prefix, another container, damaged data and invalid UTF-8', () => {
  const bytes = deflateSync('Hello');
  expect(errorCode(() => decodeZlib(`#M2M[v3.0]|DATA:${encodeBase64(bytes)}`))).toBe('unknown_prefix');
  expect(errorCode(() => decodeZlib(`${wireOf(bytes)}!`))).toBe('bad_base64');
  expect(errorCode(() => decodeZlib(wireOf(gzipSync('Hello'))))).toBe('bad_compression');
  expect(errorCode(() => decodeZlib(wireOf(bytes.subarray(0, 8))))).toBe('bad_compression');
  expect(errorCode(() => decodeZlib(wireOf(Buffer.concat([bytes, bytes]))))).toBe('trailing_bytes');
  expect(errorCode(() => decodeZlib(wireOf(deflateSync(Uint8Array.of(0xff)))))).toBe('bad_utf8');
});

it('accepts content of exactly the limit and not a byte more', () => {
  const wire = wireOf(deflateSync('a'.repeat(1000)));
  expect(decodeZlib(wire, { limits: { maxMessageSize: 1000 } })).toHaveLength(1000);
  expect(errorCode(() => decodeZlib(wire, { limits: { maxMessageSize: 999 } }))).toBe(
    'decompressed_too_large',
  );
  expect(errorCode(() => decodeZlib(wire, { limits: { maxMessageSize: 10 } }))).toBe('message_too_large');
});
