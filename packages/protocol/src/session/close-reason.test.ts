import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CLOSE_CODES } from '../base/close-code-meanings.js';
import { CloseCode, isRetryableCloseCode } from '../base/close-codes.js';
import { ProtocolError } from '../base/errors.js';
import { truncateUtf8 } from '../base/text.js';
import { closeReasonOf, disconnectError } from './close-reason.js';

describe('a connection that ends', () => {
  it.each([
    [CloseCode.BAD_FRAME, 'protocol_violation'],
    [CloseCode.UNAUTHENTICATED, 'unauthenticated'],
    [CloseCode.FORBIDDEN, 'forbidden'],
    [CloseCode.TIMEOUT, 'timeout'],
    [CloseCode.TOO_LARGE, 'message_too_large'],
    [CloseCode.RATE_LIMITED, 'rate_limited'],
    [CloseCode.INTERNAL, 'internal'],
    [CloseCode.DRAINING, 'draining'],
  ])('with %i is %s, before and after the session was established', (closeCode, code) => {
    for (const isConnecting of [true, false]) {
      expect(disconnectError(closeCode, '', isConnecting)).toMatchObject({ code, closeCode, side: 'remote' });
    }
  });

  it.each([1000, 1001, 1005, 1006, 1009, 1011, 4321])(
    'with %i loses the session, or fails to connect',
    (closeCode) => {
      expect(disconnectError(closeCode, '', false)).toMatchObject({ code: 'session_lost', closeCode });
      expect(disconnectError(closeCode, '', true)).toMatchObject({ code: 'connection_failed', closeCode });
    },
  );

  it('before the session was established may be retried for exactly the retryable close codes', () => {
    for (const code of [...CLOSE_CODES.map((row) => row.code), 1005, 1011, 1012, 1013, 1014, 1015, 4321]) {
      expect([code, disconnectError(code, '', true).retryable]).toEqual([code, isRetryableCloseCode(code)]);
    }
  });

  it('states the close code and the reason', () => {
    expect(disconnectError(4429, 'slow down', false).message).toMatch(/4429: slow down$/);
    expect(disconnectError(4429, '', false).message).toMatch(/4429$/);
  });
});

describe('a close reason', () => {
  it('is the code and the message in at most 123 bytes', () => {
    expect(closeReasonOf(new ProtocolError('bad_frame', 'no'))).toBe('bad_frame: no');
    const long = closeReasonOf(new ProtocolError('bad_frame', 'a'.repeat(200)));
    expect(long).toBe(`bad_frame: ${'a'.repeat(112)}`);
  });

  it.each(['\x7f', '\x80', '\u07ff', '\u0800', '\uffff', '\u{10000}', '\u{10ffff}'])(
    'counts the UTF-8 bytes of %j',
    (character) => {
      const bytes = Buffer.byteLength(character);
      expect(truncateUtf8(character, bytes)).toBe(character);
      expect(truncateUtf8(character, bytes - 1)).toBe('');
    },
  );

  it('is cut before the first character that does not fit, and not earlier', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 60 }), fc.nat(123), (text, maxBytes) => {
        const cut = truncateUtf8(text, maxBytes);
        const next = [...text.slice(cut.length)][0];
        expect(text.startsWith(cut)).toBe(true);
        expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(maxBytes);
        if (next !== undefined) expect(Buffer.byteLength(cut + next)).toBeGreaterThan(maxBytes);
      }),
    );
  });
});
