import { deflateSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Algorithm, Prefix } from '../../base/constants.js';
import { chatJson } from '../../testing/chat-json.js';
import { errorCode } from '../../testing/error-code.js';
import { encodeBase64 } from '../base64.js';
import { decodeText, detectAlgorithm, encodeText } from './tagged.js';

const KNOWN = Object.values(Prefix);
const security = { mode: 'HMAC', key: new Uint8Array(32).fill(7) } as const;

/** Prefixes that differ from a known one in the last character that matters. */
const ALMOST = [
  ...KNOWN.map((prefix) => prefix.slice(0, -1)),
  ...KNOWN.map((prefix) => ` ${prefix}`),
  ...KNOWN.map((prefix) => `\ufeff${prefix}`),
  ...KNOWN.map((prefix) => prefix.toLowerCase()),
  '#M2M[v3.0]|',
  '#M2M[v3.1]|DATA:',
  '#M2M|2|',
  '#T2|',
  '#',
  '',
];

describe('detectAlgorithm', () => {
  it.each([
    ['#M2M|1|', 'M2M'],
    ['#TK|', 'TOKEN_NATIVE'],
    ['#T1|', 'TOKEN'],
    ['#BR|', 'BROTLI'],
    ['#M2M[v3.0]|DATA:', 'BROTLI'],
    ['#DI|', 'DICTIONARY'],
    ['#M2M[v2.0]|DATA:', 'ZLIB'],
  ])('detects %s as %s, before any text', (prefix, algorithm) => {
    expect(detectAlgorithm(prefix)).toBe(algorithm);
    expect(detectAlgorithm(`${prefix}\ud800 anything`)).toBe(algorithm);
  });

  it('knows every prefix', () => {
    for (const prefix of KNOWN) expect(detectAlgorithm(prefix)).not.toBe('NONE');
  });

  it.each(ALMOST.filter((text) => !KNOWN.some((prefix) => text.startsWith(prefix))))(
    'treats %j as content',
    (text) => {
      expect(detectAlgorithm(`${text}x`)).toBe('NONE');
    },
  );
});

describe('encodeText and decodeText', () => {
  const exact = [Algorithm.M2M, Algorithm.BROTLI, Algorithm.NONE];

  it.each(exact)('round-trip any chat JSON exactly as %s', (algorithm) => {
    fc.assert(
      fc.property(chatJson, (json) => {
        const code = errorCode(() => encodeText(json, algorithm));
        // The header of M2M has no code for some roles.
        if (algorithm === Algorithm.M2M && code === 'unrepresentable') return;
        const wire = encodeText(json, algorithm);
        expect(detectAlgorithm(wire)).toBe(algorithm);
        expect(decodeText(wire)).toBe(json);
      }),
      { numRuns: 50 },
    );
  });

  it('round-trip ASCII exactly as DICTIONARY, and the meaning of JSON as TOKEN', () => {
    const json = '{"model":"gpt-4","choices":[{"finish_reason":"stop"}]}';
    for (const algorithm of [Algorithm.DICTIONARY, Algorithm.TOKEN]) {
      const wire = encodeText(json, algorithm);
      expect(detectAlgorithm(wire)).toBe(algorithm);
      expect(decodeText(wire)).toBe(json);
    }
  });

  it('do not change text without a known prefix', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: 'grapheme' }), fc.constantFrom(...ALMOST)), (text) => {
        if (detectAlgorithm(text) !== 'NONE') return;
        expect(encodeText(text, Algorithm.NONE)).toBe(text);
        expect(decodeText(text)).toBe(text);
      }),
    );
  });

  it.each(KNOWN)('never send text uncoded that begins with %s', (prefix) => {
    for (const rest of ['', 'x', encodeBase64(new Uint8Array(5))]) {
      expect(errorCode(() => encodeText(prefix + rest, Algorithm.NONE))).toBe('unrepresentable');
      expect(decodeText(encodeText(prefix + rest, Algorithm.BROTLI))).toBe(prefix + rest);
    }
  });

  it('write the requested Brotli prefix', () => {
    expect(encodeText('Hello', Algorithm.BROTLI, { tag: 'BR', quality: 6 })).toMatch(/^#BR\|/);
    expect(encodeText('Hello', Algorithm.BROTLI)).toMatch(/^#M2M\[v3\.0\]\|DATA:/);
  });

  it('accept zlib only if it is enabled, and never write it', () => {
    const wire = `#M2M[v2.0]|DATA:${encodeBase64(deflateSync('Hello'))}`;
    expect(errorCode(() => decodeText(wire))).toBe('unsupported');
    expect(decodeText(wire, { zlib: true })).toBe('Hello');
    expect(errorCode(() => encodeText('Hello', 'ZLIB' as Algorithm))).toBe('unsupported');
  });

  it('throw the error of the codec for a damaged body, and never return it undecoded', () => {
    expect(errorCode(() => decodeText('#M2M|1|!!!!'))).toBe('bad_base64');
    expect(errorCode(() => decodeText('#BR|!!!!'))).toBe('bad_base64');
    expect(errorCode(() => decodeText('#M2M[v3.0]|DATA:AAAA'))).toBe('bad_compression');
    expect(errorCode(() => decodeText('#T1|{'))).toBe('bad_json');
    expect(errorCode(() => decodeText('#DI|/w=='))).toBe('bad_compression');
  });

  it('require M2M with its protection if there is a key', () => {
    const json = '{"model":"gpt-4o","messages":[]}';
    const wire = encodeText(json, Algorithm.M2M, { security });
    expect(decodeText(wire, { security })).toBe(json);
    for (const weaker of [json, encodeText(json, Algorithm.M2M), encodeText(json, Algorithm.BROTLI)]) {
      expect(errorCode(() => decodeText(weaker, { security }))).toBe('security_required');
    }
    for (const algorithm of [Algorithm.NONE, Algorithm.BROTLI, Algorithm.TOKEN, Algorithm.DICTIONARY]) {
      expect(errorCode(() => encodeText(json, algorithm, { security }))).toBe('security_required');
    }
  });

  it('apply the message limit to uncoded content', () => {
    const limits = { maxMessageSize: 4 };
    expect(decodeText(encodeText('éé', Algorithm.NONE, { limits }), { limits })).toBe('éé');
    expect(errorCode(() => encodeText('ééa', Algorithm.NONE, { limits }))).toBe('message_too_large');
    expect(errorCode(() => decodeText('ééa', { limits }))).toBe('message_too_large');
  });

  it('refuse half a surrogate pair in both directions', () => {
    for (const algorithm of [Algorithm.NONE, Algorithm.BROTLI, Algorithm.DICTIONARY]) {
      expect(errorCode(() => encodeText('a\udc00', algorithm))).toBe('lone_surrogate');
    }
    expect(errorCode(() => decodeText('a\udc00'))).toBe('lone_surrogate');
  });

  it('decode arbitrary text or throw a ProtocolError', () => {
    const wires = fc.tuple(
      fc.constantFrom(...KNOWN),
      fc.oneof(fc.base64String(), fc.string({ unit: 'binary' })),
    );
    fc.assert(
      fc.property(wires, ([prefix, rest]) => {
        errorCode(() => decodeText(prefix + rest, { zlib: true }));
      }),
      { numRuns: 2000 },
    );
  });
});
