import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import * as node from '../platform/node.js';
import * as web from '../platform/web.js';
import { errorCode } from '../testing/error-code.js';
import { decodeBase64, encodeBase64 } from './base64.js';

const platforms = [node.platform, web.platform];

// RFC 4648 section 10.
const RFC_VECTORS = [
  ['', ''],
  ['f', 'Zg=='],
  ['fo', 'Zm8='],
  ['foo', 'Zm9v'],
  ['foob', 'Zm9vYg=='],
  ['fooba', 'Zm9vYmE='],
  ['foobar', 'Zm9vYmFy'],
] as const;

const REFUSED = {
  'no padding': 'Zg',
  'half of the padding': 'Zg=',
  'too much padding': 'Zm9v====',
  'padding alone': '====',
  'padding in the middle': 'Zg==Zg==',
  'padding first': '=Zm9',
  'a digit after padding': 'Zm=v',
  'a character alone': 'Z',
  'non-zero bits after one byte': 'Zh==',
  'non-zero bits after two bytes': 'Zm9=',
  'a line end': 'Zm9v\n',
  'a line end inside': 'Zm\n9v==',
  'a leading space': ' Zm9v',
  'four spaces': '    ',
  'the URL alphabet': '-_-_',
  'an exclamation mark': '!!!!',
  'a byte over 0x7F': 'Zm9\u00c1',
  'a character whose low byte is a digit': 'Zm9\u0141',
  'a surrogate': 'Zm9\ud800',
  'a null character': 'Zm9\0',
};

describe.each(platforms)('base64 on $name', (platform) => {
  it.each(RFC_VECTORS)('writes %j as %j and reads it back', (text, base64) => {
    const bytes = new TextEncoder().encode(text);
    expect(platform.encodeBase64(bytes)).toBe(base64);
    expect(platform.decodeBase64(base64)).toEqual(bytes);
  });

  it.each(Object.entries(REFUSED))('refuses %s', (_, text) => {
    expect(platform.decodeBase64(text)).toBeUndefined();
  });

  it('accepts every digit and no other character', () => {
    const accepted: string[] = [];
    for (let unit = 0; unit <= 0xffff; unit++) {
      const digit = String.fromCharCode(unit);
      if (platform.decodeBase64(`A${digit}AA`) !== undefined) accepted.push(digit);
    }
    expect(accepted.join('')).toBe('+/0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz');
  });

  it('round-trips any bytes, also from the middle of a buffer', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), fc.nat(8), (bytes, offset) => {
        const larger = new Uint8Array(bytes.length + 16);
        larger.set(bytes, offset);
        const view = larger.subarray(offset, offset + bytes.length);
        expect(platform.decodeBase64(platform.encodeBase64(view))).toEqual(bytes);
      }),
    );
  });

  it('returns a plain Uint8Array', () => {
    expect(Object.getPrototypeOf(platform.decodeBase64('Zm9v'))).toBe(Uint8Array.prototype);
  });
});

describe('base64', () => {
  it('is the same on both platforms, for valid and for invalid text', () => {
    const nearly = fc.string({ unit: fc.constantFrom(...'AQgwBz+/=-_ \n\u00e9'), maxLength: 12 });
    fc.assert(
      fc.property(fc.oneof(nearly, fc.base64String({ maxLength: 64 })), (text) => {
        const [onNode, onWeb] = platforms.map((platform) => platform.decodeBase64(text));
        expect(onWeb).toEqual(onNode);
        if (onNode !== undefined) expect(encodeBase64(onNode)).toBe(text);
      }),
      { numRuns: 2000 },
    );
  });

  it('reports text that is not base64 as bad_base64', () => {
    for (const text of Object.values(REFUSED)) {
      expect(errorCode(() => decodeBase64(text))).toBe('bad_base64');
    }
  });
});
