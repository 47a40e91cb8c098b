import fc from 'fast-check';
import { expect, it } from 'vitest';
import { concatBytes } from '../../base/bytes.js';
import { encodeUtf8 } from '../../base/text.js';
import { isTextType } from './media-type.js';
import { Pieces } from './pieces.js';

const bytesOf = (piece: string | Uint8Array) => (typeof piece === 'string' ? encodeUtf8(piece) : piece);

function cut(chunks: readonly Uint8Array[], isText: boolean): (string | Uint8Array)[] {
  const pieces = new Pieces(isText);
  return [...chunks.flatMap((chunk) => [...pieces.push(chunk)]), ...pieces.end()];
}

/** Cuts bytes at random places. */
const chunksOf = (bytes: Uint8Array) =>
  fc
    .array(fc.nat(bytes.length), { maxLength: 8 })
    .map((places) => [0, ...places.sort((a, b) => a - b), bytes.length])
    .map((places) => places.slice(1).map((end, index) => bytes.subarray(places[index], end)));

it('cuts text into text, also within characters', () => {
  const texts = fc.string({ unit: 'grapheme' }).map((text) => `\ufeff${text}`);
  const cases = texts.chain((text) => fc.tuple(fc.constant(text), chunksOf(encodeUtf8(text))));
  fc.assert(
    fc.property(cases, ([text, chunks]) => {
      const pieces = cut(chunks, true);
      expect(pieces.every((piece) => typeof piece === 'string' && piece !== '')).toBe(true);
      expect(pieces.join('')).toBe(text);
    }),
  );
});

it('changes no byte, whether or not a body is the text that it is said to be', () => {
  const bytes = fc.uint8Array({ maxLength: 64 });
  const cases = fc
    .tuple(bytes, fc.boolean())
    .chain(([body, isText]) => fc.tuple(fc.constant(body), fc.constant(isText), chunksOf(body)));
  fc.assert(
    fc.property(cases, ([body, isText, chunks]) => {
      expect(concatBytes(cut(chunks, isText).map(bytesOf))).toEqual(body);
    }),
  );
});

it('cuts pieces of 64 KiB', () => {
  expect(cut([new Uint8Array(64 * 1024)], false).map(({ length }) => length)).toEqual([65536]);
  expect(cut([new Uint8Array(64 * 1024 + 1)], false).map(({ length }) => length)).toEqual([65536, 1]);
});

it.each([
  ['text/html;charset=UTF-8', true],
  ['application/json', true],
  ['application/problem+json', true],
  ['application/xml', true],
  ['image/png', false],
  ['application/jsonish', false],
  ['application/octet-stream', false],
  [undefined, false],
])('%s is text: %s', (type, isText) => {
  expect(isTextType(type)).toBe(isText);
});
