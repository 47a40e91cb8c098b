import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { loadEncoding } from '../codec/vocabulary/load.js';
import { ENCODING_NAMES } from '../codec/vocabulary/testing/loaded-table.js';
import { errorCode } from '../testing/error-code.js';
import type { Encoding } from './encoding.js';
import { createRandom, mixedText, pick } from './testing/texts.js';
import { VOCABULARIES } from './vocabulary.js';

describe.each(ENCODING_NAMES)('decoding %s', (name) => {
  const { ordinary, size, specials } = VOCABULARIES[name];
  let encoding: Encoding;
  beforeAll(async () => {
    encoding = await loadEncoding(name);
  });

  it('refuses IDs that no vocabulary has', () => {
    for (const id of [size, size + 1, 2 ** 32 - 1, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY]) {
      expect(errorCode(() => encoding.decode([15, id]))).toBe('bad_token');
      expect(errorCode(() => encoding.decodeBytes([id], { allowSpecial: true }))).toBe('bad_token');
      expect(errorCode(() => encoding.byteLength([id]))).toBe('bad_token');
      expect(errorCode(() => encoding.createDecoder().push([id]))).toBe('bad_token');
    }
  });

  it('refuses holes, and special tokens unless they are allowed', () => {
    for (let id = ordinary; id < size; id++) {
      const special = specials.get(id);
      expect(errorCode(() => encoding.decode([id]))).toBe('bad_token');
      if (special === undefined) {
        expect(errorCode(() => encoding.decode([id], { allowSpecial: true }))).toBe('bad_token');
      } else {
        expect(encoding.decode([15, id, 15], { allowSpecial: true })).toBe(
          `${encoding.decode([15])}${special}${encoding.decode([15])}`,
        );
      }
    }
  });

  it('decodes every ordinary token', () => {
    const ids = Uint32Array.from({ length: ordinary }, (_, id) => id);
    const bytes = encoding.decodeBytes(ids);
    expect(bytes.length).toBe(encoding.byteLength(ids));
    const hashed = ids.filter((id) => encoding.decodeBytes([id]).length === 0);
    expect(hashed.length).toBe(0);
  });

  it('refuses bytes that are not UTF-8', () => {
    const half = encoding.encode('é'.normalize('NFC'));
    const bytes = encoding.decodeBytes(half);
    expect([...bytes]).toEqual([0xc3, 0xa9]);
    // The first 256 tokens are single bytes.
    const byteId = (byte: number) =>
      Array.from({ length: 256 }, (_, id) => id).find(
        (id) => encoding.decodeBytes([id])[0] === byte,
      ) as number;
    for (const bad of [[0xc3], [0xa9], [0xc3, 0x41], [0xed, 0xa0, 0x80], [0xff], [0xe0, 0x80, 0x80]]) {
      const ids = bad.map(byteId);
      expect(errorCode(() => encoding.decode(ids))).toBe('bad_utf8');
      expect([...encoding.decodeBytes(ids)]).toEqual(bad);
      expect(
        errorCode(() => {
          const decoder = encoding.createDecoder();
          for (const id of ids) decoder.push([id]);
          decoder.end();
        }),
      ).toBe('bad_utf8');
    }
  });

  it('limits the size of the text before decoding it', () => {
    const text = 'as long as it may be';
    const ids = encoding.encode(text);
    expect(encoding.decode(ids, { maxBytes: text.length })).toBe(text);
    expect(errorCode(() => encoding.decode(ids, { maxBytes: text.length - 1 }))).toBe(
      'decompressed_too_large',
    );
    expect(errorCode(() => encoding.decodeBytes(ids, { maxBytes: text.length - 1 }))).toBe(
      'decompressed_too_large',
    );
    // 128 bytes per token; the default limit is 16 MiB.
    const [longest] = encoding.encode(' '.repeat(name === 'LLAMA_BPE' ? 128 : 81));
    const each = encoding.byteLength([longest as number]);
    const most = Math.floor((16 * 1024 * 1024) / each);
    const many = new Uint32Array(most + 1).fill(longest as number);
    expect(errorCode(() => encoding.decode(many))).toBe('decompressed_too_large');
    expect(encoding.byteLength(many.subarray(1))).toBe(most * each);
  });

  describe('as a stream', () => {
    it('gives the same text for any split of the tokens', () => {
      const random = createRandom(5);
      for (let i = 0; i < 300; i++) {
        const text = mixedText(random);
        const ids = encoding.encode(text);
        const decoder = encoding.createDecoder();
        let decoded = '';
        for (let at = 0; at < ids.length; ) {
          const end = at + Math.floor(random() * 4);
          const part = decoder.push(ids.subarray(at, end));
          // No character is split.
          expect((part as string & { isWellFormed(): boolean }).isWellFormed()).toBe(true);
          expect(part).not.toContain('\ufffd'.repeat(2));
          decoded += part;
          at = end;
        }
        decoder.end();
        expect(decoded).toBe(text);
      }
    });

    it('holds back the bytes of a character until it is complete', () => {
      fc.assert(
        fc.property(fc.string({ unit: 'binary', minLength: 1 }), (text) => {
          const decoder = encoding.createDecoder();
          const bytes = Buffer.from(text);
          let seen = 0;
          for (let at = 0; at < bytes.length; at++) {
            const byte = bytes[at] as number;
            const id = byteIds.get(byte) as number;
            seen += Buffer.byteLength(decoder.push([id]));
            // The decoder returns everything up to the last complete character.
            expect(at + 1 - seen).toBeLessThan(4);
          }
          decoder.end();
          expect(seen).toBe(bytes.length);
        }),
        { numRuns: 300 },
      );
    });
    const byteIds = new Map<number, number>();
    beforeAll(() => {
      for (let id = 0; id < 256; id++) byteIds.set(encoding.decodeBytes([id])[0] as number, id);
    });

    it('keeps byte-order marks', () => {
      const decoder = encoding.createDecoder();
      const ids = encoding.encode('\ufeffa\ufeff');
      expect([...ids].map((id) => decoder.push([id])).join('')).toBe('\ufeffa\ufeff');
    });

    it('is independent of other decoders', () => {
      const first = encoding.createDecoder();
      const second = encoding.createDecoder();
      expect(first.push([byteIds.get(0xc3) as number])).toBe('');
      expect(second.push(encoding.encode('plain'))).toBe('plain');
      second.end();
      expect(first.push([byteIds.get(0xa9) as number])).toBe('é');
      first.end();
    });

    it('refuses to end inside a character', () => {
      const decoder = encoding.createDecoder();
      decoder.push([byteIds.get(0xf0) as number, byteIds.get(0x9f) as number]);
      expect(errorCode(() => decoder.end())).toBe('bad_utf8');
    });

    it('throws the same error again after an error', () => {
      const decoder = encoding.createDecoder();
      expect(errorCode(() => decoder.push([size]))).toBe('bad_token');
      expect(errorCode(() => decoder.push(encoding.encode('text')))).toBe('bad_token');
      expect(errorCode(() => decoder.end())).toBe('bad_token');
    });

    it('limits the size of the whole text', () => {
      const decoder = encoding.createDecoder({ maxBytes: 10 });
      const five = encoding.encode('12345');
      expect(decoder.push(five) + decoder.push(five)).toBe('1234512345');
      expect(decoder.push([])).toBe('');
      expect(errorCode(() => decoder.push(encoding.encode('6')))).toBe('decompressed_too_large');
    });

    it('accepts special tokens if they are allowed', () => {
      const [id, special] = pick([...specials], createRandom(1));
      expect(encoding.createDecoder({ allowSpecial: true }).push([id])).toBe(special);
      expect(errorCode(() => encoding.createDecoder().push([id]))).toBe('bad_token');
    });
  });
});
