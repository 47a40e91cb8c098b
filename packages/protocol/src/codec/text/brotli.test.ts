import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeUtf8 } from '../../base/text.js';
import { chatJson } from '../../testing/chat-json.js';
import { errorCode } from '../../testing/error-code.js';
import { decodeBase64, encodeBase64 } from '../base64.js';
import {
  type BrotliQuality,
  compressBrotli,
  decodeBrotli,
  decompressBrotli,
  encodeBrotli,
} from './brotli.js';

const wellFormed = fc.oneof(
  fc.string({ unit: 'grapheme' }),
  chatJson,
  fc.constant('\ufeffwith a byte-order mark'),
);

describe('encodeBrotli', () => {
  it('round-trips exactly with every tag and quality', () => {
    fc.assert(
      fc.property(
        wellFormed,
        fc.constantFrom('V3', 'BR', undefined),
        fc.constantFrom(4, 5, 6, undefined),
        (text, tag, quality) => {
          const wire = encodeBrotli(text, { tag, quality });
          expect(wire.startsWith(tag === 'BR' ? '#BR|' : '#M2M[v3.0]|DATA:')).toBe(true);
          expect(decodeBrotli(wire)).toBe(text);
        },
      ),
    );
  });

  it('refuses half a surrogate pair instead of replacing it', () => {
    expect(errorCode(() => encodeBrotli('a\ud800b'))).toBe('lone_surrogate');
  });

  it('refuses a quality outside 4 to 6 and an unknown tag', () => {
    for (const quality of [0, 3, 7, 11, 4.5, Number.NaN]) {
      expect(errorCode(() => encodeBrotli('a', { quality: quality as BrotliQuality }))).toBe(
        'invalid_option',
      );
    }
    for (const tag of ['v3', '', 'toString']) {
      expect(errorCode(() => encodeBrotli('a', { tag: tag as 'V3' }))).toBe('invalid_option');
    }
  });

  it('accepts a message of exactly the limit in bytes, and refuses a longer one', () => {
    const limits = { maxMessageSize: 600 };
    expect(decodeBrotli(encodeBrotli('é'.repeat(300), { limits }), { limits })).toBe('é'.repeat(300));
    expect(errorCode(() => encodeBrotli(`${'é'.repeat(300)}a`, { limits }))).toBe('message_too_large');
  });

  it('refuses to write a text that its peer would refuse to read', () => {
    const noise = encodeBase64(
      Uint8Array.from({ length: 450 }, (_, i) => Math.imul(i + 1, 2654435761) >>> 24),
    );
    expect(errorCode(() => encodeBrotli(noise, { limits: { maxMessageSize: 600 } }))).toBe(
      'message_too_large',
    );
  });
});

describe('decodeBrotli', () => {
  const wire = encodeBrotli('{"role":"user","content":"Hello"}');

  it('refuses every prefix except its own two', () => {
    for (const prefix of ['', '#BR', '#br|', ' #BR|', '#M2M[v3.0]|', '#M2M[v2.0]|DATA:', '#TK|']) {
      expect(errorCode(() => decodeBrotli(prefix + wire.slice(16)))).toBe('unknown_prefix');
    }
  });

  it('refuses damaged base64, an empty body, and bytes after the stream', () => {
    expect(errorCode(() => decodeBrotli(`${wire}=`))).toBe('bad_base64');
    expect(errorCode(() => decodeBrotli(`${wire}\n`))).toBe('bad_base64');
    expect(errorCode(() => decodeBrotli('#BR|'))).toBe('bad_compression');
    const longer = Uint8Array.from([...decodeBase64(wire.slice(16)), 0]);
    expect(errorCode(() => decodeBrotli(`#BR|${encodeBase64(longer)}`))).toBe('trailing_bytes');
  });

  it('refuses content that is not UTF-8', () => {
    for (const bytes of [[0xff], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xe2, 0x82]]) {
      const bad = `#BR|${encodeBase64(compressBrotli(Uint8Array.from(bytes)))}`;
      expect(errorCode(() => decodeBrotli(bad))).toBe('bad_utf8');
    }
  });

  it('accepts content of exactly the limit and not a byte more', () => {
    const long = encodeBrotli('a'.repeat(1000));
    expect(decodeBrotli(long, { limits: { maxMessageSize: 1000 } })).toHaveLength(1000);
    expect(errorCode(() => decodeBrotli(long, { limits: { maxMessageSize: 999 } }))).toBe(
      'decompressed_too_large',
    );
  });

  it('checks the size of its input before it decodes anything', () => {
    const limits = { maxMessageSize: wire.length };
    expect(decodeBrotli(wire, { limits })).toHaveLength(33);
    const shorter = { maxMessageSize: wire.length - 1 };
    expect(errorCode(() => decodeBrotli(wire, { limits: shorter }))).toBe('message_too_large');
    expect(errorCode(() => decodeBrotli('!'.repeat(wire.length), { limits: shorter }))).toBe(
      'message_too_large',
    );
  });

  it('reports every damaged message as a ProtocolError', () => {
    fc.assert(
      fc.property(wellFormed, fc.nat(), fc.integer({ min: 0x20, max: 0x7e }), (text, at, unit) => {
        const whole = encodeBrotli(text, { tag: 'BR' });
        const index = at % whole.length;
        errorCode(() => decodeBrotli(whole.slice(0, index)));
        errorCode(() =>
          decodeBrotli(whole.slice(0, index) + String.fromCharCode(unit) + whole.slice(index + 1)),
        );
      }),
      { numRuns: 500 },
    );
  });
});

describe('compressBrotli', () => {
  it('carries any bytes', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 500 }),
        fc.constantFrom<BrotliQuality>(4, 5, 6),
        (bytes, quality) => {
          expect(decompressBrotli(compressBrotli(bytes, quality))).toEqual(bytes);
        },
      ),
    );
  });

  it('uses quality 5 by default', () => {
    const bytes = encodeUtf8('the same words and the same words again, and again the same words '.repeat(20));
    expect(compressBrotli(bytes)).toEqual(compressBrotli(bytes, 5));
  });

  it('stops a bomb at the default limit of 16 MiB', () => {
    const exact = compressBrotli(new Uint8Array(16 * 1024 * 1024));
    expect(exact.length).toBeLessThan(200);
    expect(decompressBrotli(exact)).toHaveLength(16 * 1024 * 1024);
    const bomb = compressBrotli(new Uint8Array(16 * 1024 * 1024 + 1));
    expect(errorCode(() => decompressBrotli(bomb))).toBe('decompressed_too_large');
  });
});
