import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { errorCode } from '../testing/error-code.js';
import { assertWellFormed, decodeUtf8, encodeUtf8, utf8Length } from './text.js';

/** Text that may hold halves of surrogate pairs. */
const anyUnits = fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 20 });
const surrogates = fc.array(fc.constantFrom(0x41, 0xd800, 0xdbff, 0xdc00, 0xdfff, 0xe000), { maxLength: 8 });
const units = fc.oneof(anyUnits, surrogates).map((codes) => String.fromCharCode(...codes));

describe('UTF-8', () => {
  it('round-trips text, with the same bytes that Node writes', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const bytes = encodeUtf8(text);
        expect(Buffer.from(bytes).equals(Buffer.from(text))).toBe(true);
        expect(decodeUtf8(bytes)).toBe(text);
      }),
    );
  });

  it('decodes arbitrary bytes exactly or refuses them', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 12 }), (bytes) => {
        if (errorCode(() => decodeUtf8(bytes)) === 'none')
          expect(encodeUtf8(decodeUtf8(bytes))).toEqual(bytes);
        else expect(errorCode(() => decodeUtf8(bytes))).toBe('bad_utf8');
      }),
    );
  });

  it.each([
    ['a stray continuation', [0x80]],
    ['a cut character', [0xe2, 0x82]],
    ['an overlong form', [0xc0, 0xaf]],
    ['a surrogate', [0xed, 0xa0, 0x80]],
    ['a pair of surrogates', [0xed, 0xa0, 0xbd, 0xed, 0xb8, 0x80]],
    ['a point above U+10FFFF', [0xf4, 0x90, 0x80, 0x80]],
  ])('refuses %s', (_what, bytes) => {
    expect(errorCode(() => decodeUtf8(Uint8Array.from(bytes)))).toBe('bad_utf8');
    // The decoder must not have kept a part of the bad bytes.
    expect(decodeUtf8(Uint8Array.of(0x41))).toBe('A');
  });

  it('keeps a byte-order mark, a NUL and U+FFFD', () => {
    const text = '\ufeff\0\ufffd\ufeff';
    expect(decodeUtf8(encodeUtf8(text))).toBe(text);
  });
});

describe('well-formedness', () => {
  afterEach(() => {
    vi.restoreAllMocks();
  });

  const refusesExactly = (check: (text: string) => void) =>
    fc.assert(
      fc.property(units, (text) => {
        const hasLone = text.replace(/[\ud800-\udbff][\udc00-\udfff]/g, '').search(/[\ud800-\udfff]/) !== -1;
        expect(errorCode(() => check(text))).toBe(hasLone ? 'lone_surrogate' : 'none');
      }),
      { numRuns: 1_000 },
    );

  it('is missing exactly if half of a surrogate pair stands alone', () => {
    refusesExactly(assertWellFormed);
    refusesExactly(encodeUtf8);
  });

  it('is judged the same way if the runtime has no isWellFormed', async () => {
    const descriptor = Object.getOwnPropertyDescriptor(String.prototype, 'isWellFormed');
    try {
      Object.defineProperty(String.prototype, 'isWellFormed', { value: undefined, configurable: true });
      vi.resetModules();
      const text = await import('./text.js');
      const { isProtocolError } = await import('./errors.js');
      refusesExactly((value) => {
        try {
          text.assertWellFormed(value);
        } catch (error) {
          // The module was loaded again, with its own error class.
          expect(isProtocolError(error)).toBe(true);
          assertWellFormed(value);
          throw new Error('refused a well-formed text', { cause: error });
        }
      });
    } finally {
      if (descriptor !== undefined) Object.defineProperty(String.prototype, 'isWellFormed', descriptor);
    }
  });
});

it('utf8Length counts the bytes of any well-formed text, however long', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.nat(3000), (text, times) => {
      const long = text.repeat(times);
      expect(utf8Length(long)).toBe(Buffer.byteLength(long));
    }),
  );
});
