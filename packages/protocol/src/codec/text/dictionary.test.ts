import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeUtf8 } from '../../base/text.js';
import { errorCode } from '../../testing/error-code.js';
import { decodeBase64, encodeBase64 } from '../base64.js';
import {
  decodeDictionary,
  decodeDictionaryBody,
  encodeDictionary,
  encodeDictionaryBody,
} from './dictionary.js';

// Compression document, section 5.6 (there numbered 5.5.2).
const TABLE = [
  ['{"role":"user","content":"', 0x80],
  ['{"role":"assistant","content":"', 0x81],
  ['{"role":"system","content":"', 0x82],
  ['"}', 0x83],
  ['"},', 0x84],
  ['"}]', 0x85],
  ['{"messages":[', 0x86],
  ['{"model":"', 0x87],
] as const;

const hexOf = (text: string) => Buffer.from(encodeDictionaryBody(encodeUtf8(text))).toString('hex');

const ascii = fc.string({ unit: 'binary-ascii', maxLength: 60 });
/** Text in which patterns, parts of patterns and other text follow each other. */
const almostPatterns = fc
  .array(
    fc.oneof(
      fc.constantFrom(...TABLE.map(([pattern]) => pattern)),
      fc
        .tuple(fc.constantFrom(...TABLE.map(([pattern]) => pattern)), fc.nat(31))
        .map(([pattern, length]) => pattern.slice(0, length)),
      ascii,
    ),
    { maxLength: 12 },
  )
  .map((pieces) => pieces.join(''));

describe('encodeDictionary', () => {
  it.each(TABLE)('writes %s as one byte', (pattern, code) => {
    expect(hexOf(pattern)).toBe(code.toString(16));
    expect(encodeDictionary(`a${pattern}b`)).toBe(`#DI|${encodeBase64(Uint8Array.of(0x61, code, 0x62))}`);
    expect(decodeDictionary(`#DI|${encodeBase64(Uint8Array.of(code))}`)).toBe(pattern);
  });

  it('writes a request with the codes of the table', () => {
    const request =
      '{"messages":[{"role":"system","content":"Be brief"},{"role":"user","content":"Hi"}],"model":"gpt-4o"}';
    expect(hexOf(request)).toBe(
      // 0x86 0x82 "Be brief" 0x84 0x80 "Hi" 0x85 then `,"model":"gpt-4o` and 0x83
      `8682${Buffer.from('Be brief').toString('hex')}8480${Buffer.from('Hi').toString('hex')}85${Buffer.from(',"model":"gpt-4o').toString('hex')}83`,
    );
  });

  it('prefers the longest pattern', () => {
    expect(hexOf('"},"}]"}')).toBe('848583');
    expect(hexOf('"}}')).toBe('837d');
    expect(hexOf('{"role":"user","content":""},')).toBe('8084');
  });

  it('does not change text that only begins like a pattern', () => {
    for (const [pattern] of TABLE) {
      const cut = pattern.slice(0, -1);
      if (TABLE.some(([other]) => other === cut)) continue;
      expect(hexOf(cut)).toBe(Buffer.from(cut).toString('hex'));
    }
  });

  it('round-trips any ASCII text exactly, and never grows', () => {
    fc.assert(
      fc.property(fc.oneof(ascii, almostPatterns), (text) => {
        const body = encodeDictionaryBody(encodeUtf8(text));
        expect(body.length).toBeLessThanOrEqual(text.length);
        expect(decodeDictionaryBody(body)).toEqual(encodeUtf8(text));
        expect(decodeDictionary(encodeDictionary(text))).toBe(text);
      }),
      { numRuns: 500 },
    );
  });

  it('refuses any other text instead of corrupting it', () => {
    for (const text of ['é', '{"role":"user","content":"日本"}', '\u0080', '🎉']) {
      expect(errorCode(() => encodeDictionary(text))).toBe('unrepresentable');
    }
    expect(errorCode(() => encodeDictionary('\ud800'))).toBe('lone_surrogate');
    for (let byte = 0x80; byte <= 0xff; byte++) {
      expect(errorCode(() => encodeDictionaryBody(Uint8Array.of(0x61, byte)))).toBe('unrepresentable');
    }
  });
});

describe('decodeDictionary', () => {
  it('refuses bytes that are not a code', () => {
    for (let byte = 0x88; byte <= 0xff; byte++) {
      expect(errorCode(() => decodeDictionaryBody(Uint8Array.of(0x61, byte)))).toBe('bad_compression');
    }
  });

  it('refuses other prefixes and damaged base64', () => {
    for (const wire of ['', '#DI', '#di|YQ==', '#M2M|YQ==', '#BR|YQ==']) {
      expect(errorCode(() => decodeDictionary(wire))).toBe('unknown_prefix');
    }
    expect(errorCode(() => decodeDictionary('#DI|YQ'))).toBe('bad_base64');
  });

  it('accepts content of exactly the limit and not a byte more', () => {
    const body = Uint8Array.of(0x81, 0x61);
    expect(decodeDictionaryBody(body, { maxMessageSize: 32 })).toHaveLength(32);
    expect(errorCode(() => decodeDictionaryBody(body, { maxMessageSize: 31 }))).toBe(
      'decompressed_too_large',
    );
    const text = 'a'.repeat(100);
    const wire = encodeDictionary(text);
    expect(decodeDictionary(wire, { limits: { maxMessageSize: wire.length } })).toBe(text);
    expect(errorCode(() => decodeDictionary(wire, { limits: { maxMessageSize: wire.length - 1 } }))).toBe(
      'message_too_large',
    );
    expect(errorCode(() => encodeDictionary(text, { limits: { maxMessageSize: 99 } }))).toBe(
      'message_too_large',
    );
  });

  it('refuses a body that expands beyond the default limit before it allocates anything', () => {
    const bomb = new Uint8Array(1024 * 1024).fill(0x81);
    const before = process.memoryUsage().arrayBuffers;
    expect(errorCode(() => decodeDictionaryBody(bomb))).toBe('decompressed_too_large');
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(1024 * 1024);
  });

  it('decodes arbitrary bytes to text that encodes to no more bytes, or throws a ProtocolError', () => {
    fc.assert(
      fc.property(fc.uint8Array({ max: 0x8a, maxLength: 40 }), (body) => {
        if (errorCode(() => decodeDictionaryBody(body)) !== 'none') return;
        const text = decodeDictionaryBody(body);
        expect(encodeDictionaryBody(text).length).toBeLessThanOrEqual(body.length);
      }),
    );
  });

  it('reads the base64 of its own text form', () => {
    expect(decodeBase64(encodeDictionary('"}').slice(4))).toEqual(Uint8Array.of(0x83));
  });
});
