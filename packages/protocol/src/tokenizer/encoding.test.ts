import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { ByteWriter } from '../base/bytes.js';
import { loadEncoding } from '../codec/vocabulary/load.js';
import { ENCODING_NAMES } from '../codec/vocabulary/testing/loaded-table.js';
import { errorCode } from '../testing/error-code.js';
import type { Encoding } from './encoding.js';
import { createRandom, mixedText } from './testing/texts.js';
import { decodeTokenIds, encodeTokenIds } from './varints.js';

describe.each(ENCODING_NAMES)('%s', (name) => {
  let encoding: Encoding;
  beforeAll(async () => {
    encoding = await loadEncoding(name);
  });

  const texts = (count: number) => {
    const random = createRandom(count);
    return Array.from({ length: count }, () => mixedText(random));
  };

  it('round-trips every well-formed text', () => {
    const wellFormed = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 200 }),
      fc.string({ unit: 'grapheme', maxLength: 200 }),
      fc.string({ unit: 'binary-ascii', maxLength: 200 }),
    );
    fc.assert(
      fc.property(wellFormed, (text) => {
        expect(encoding.decode(encoding.encode(text))).toBe(text);
      }),
      { numRuns: 3000 },
    );
  });

  it('round-trips byte-order marks, NUL and the empty text', () => {
    for (const text of ['', '\ufeff', '\ufeff\ufefftext\ufeff', '\0', 'a\0b\0', '\u{10ffff}']) {
      expect(encoding.decode(encoding.encode(text))).toBe(text);
    }
    expect(encoding.encode('')).toEqual(new Uint32Array(0));
  });

  it('refuses lone surrogates in every method', () => {
    for (const text of ['\ud800', 'a\udc00b', '\ude00\ud83d', `${'x'.repeat(100_000)}\ud800`]) {
      expect(errorCode(() => encoding.encode(text))).toBe('lone_surrogate');
      expect(errorCode(() => encoding.count(text))).toBe('lone_surrogate');
      expect(errorCode(() => encoding.encodeVarints(text))).toBe('lone_surrogate');
      expect(errorCode(() => encoding.encodeInto(text, new ByteWriter()))).toBe('lone_surrogate');
      expect(errorCode(() => encoding.encodeSlices(text).next())).toBe('lone_surrogate');
    }
  });

  it('never turns text into special tokens', () => {
    const specials = ['<|endoftext|>', '<|endofprompt|>', '<|begin_of_text|>', '<|eot_id|>', '<|im_start|>'];
    for (const special of specials) {
      const ids = encoding.encode(`${special}a ${special}`);
      expect(ids.length).toBeGreaterThan(6);
      // Special tokens are refused by default.
      expect(encoding.decode(ids)).toBe(`${special}a ${special}`);
    }
  });

  it('gives the same tokens in every form', () => {
    for (const text of [...texts(300), texts(400).join('')]) {
      const ids = encoding.encode(text);
      expect(encoding.count(text)).toBe(ids.length);
      expect(encoding.encodeVarints(text)).toEqual(encodeTokenIds(ids));
      const withHeadroom = encoding.encodeVarints(text, 5);
      expect(withHeadroom.subarray(0, 5)).toEqual(new Uint8Array(5));
      expect(decodeTokenIds(withHeadroom.subarray(5))).toEqual(ids);
      const writer = new ByteWriter(2).u8(7);
      expect(encoding.encodeInto(text, writer)).toBe(ids.length);
      expect(writer.finish()).toEqual(Uint8Array.of(7, ...encodeTokenIds(ids)));
      expect(encoding.byteLength(ids)).toBe(Buffer.byteLength(text));
      expect(Buffer.from(encoding.decodeBytes(ids)).equals(Buffer.from(text))).toBe(true);
    }
  });

  it('encodes in slices, several texts alternately', () => {
    const long = [texts(500).join(''), texts(501).join(' '), `${'ab'.repeat(20_000)}${'中文'.repeat(500)}`];
    const slices = [1, 700, undefined];
    const expected = long.map((text) => [...encoding.encode(text)]);
    const running = long.map((text, i) => encoding.encodeSlices(text, slices[i]));
    const results: number[][] = [];
    let steps = 0;
    while (results.filter(Boolean).length < long.length) {
      for (const [i, run] of running.entries()) {
        if (results[i] !== undefined) continue;
        const step = run.next();
        if (step.done === true) results[i] = [...step.value];
        else expect(step.value).toBeLessThanOrEqual(Buffer.byteLength(long[i] as string));
        steps++;
        // Other calls in between disturb nothing.
        if (steps % 50 === 0) encoding.encode(`${steps} other text`);
      }
    }
    expect(results).toEqual(expected);
    expect(steps).toBeGreaterThan(1000);
  });

  it('encodes about as many bytes per slice as requested', () => {
    const text = 'several words of which no slice takes many more than it should '.repeat(1000);
    let before = 0;
    for (const done of encoding.encodeSlices(text, 1000)) {
      expect(done - before).toBeLessThan(1200);
      before = done;
    }
  });

  it('uses separate buffers for texts that do not fit the shared one', () => {
    for (const length of [21_840, 21_842, 21_843, 21_844, 30_000, 70_000]) {
      for (const character of ['a', 'é', '中', '😀']) {
        const text = `${character.repeat(length)}!`;
        expect(encoding.decode(encoding.encode(text))).toBe(text);
      }
    }
  });
});
