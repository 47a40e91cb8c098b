import fc from 'fast-check';
import { expect, it } from 'vitest';
import { errorCode } from '../../testing/error-code.js';
import { EventReader } from './event-reader.js';
import { encodeEventPart } from './events.js';

function read(chunks: readonly string[], maxLength = Infinity): string[] {
  const reader = new EventReader(maxLength);
  return [...chunks.flatMap((chunk) => [...reader.push(chunk)]), ...reader.end()];
}

/** Cuts a text at random places. */
const cut = (text: string) =>
  fc
    .array(fc.nat(text.length), { maxLength: 6 })
    .map((places) => [0, ...places.sort((a, b) => a - b), text.length])
    .map((places) => places.slice(1).map((end, index) => text.slice(places[index], end)));

/** The rules of the specification, for a whole text. */
function expected(text: string): string[] {
  const parts: string[] = [];
  for (const block of text.replace(/\r\n?/g, '\n').split('\n\n').slice(0, -1)) {
    let data: string[] = [];
    let event: string | undefined;
    let id: string | undefined;
    for (const line of block.split('\n')) {
      const [, name, value = ''] = /^([^:]*)(?:: ?(.*))?$/su.exec(line) ?? [];
      if (name === 'data') data = [...data, value];
      if (name === 'event') event = value || undefined;
      if (name === 'id' && !value.includes('\0')) id = value;
    }
    if (data.length > 0) parts.push(encodeEventPart({ data: data.join('\n'), event, id }));
  }
  return parts;
}

it('reads events as specified, wherever their text is cut', () => {
  const line = fc.constantFrom(
    'data: a',
    'data:b',
    'data',
    'data:  two spaces',
    'event: named',
    'event:',
    'id: 7',
    'id',
    'id: a\0b',
    ': comment',
    'retry: 10',
    'unknown: x',
    'data: Grüße 👋',
    'dataset: x',
    '',
    '',
  );
  const end = fc.constantFrom('\n', '\r\n', '\r');
  const texts = fc
    .array(fc.tuple(line, end), { maxLength: 12 })
    .map((lines) => lines.map((pair) => pair.join('')).join(''))
    // Blank lines in a row mean the same as one, which the rules above do not know.
    .map((text) => text.replace(/(?:\r\n|\r|\n){3,}/g, '\n\n').replace(/^[\r\n]+/, ''));
  const cases = texts.chain((text) => fc.tuple(fc.constant(text), cut(text)));
  fc.assert(
    fc.property(cases, ([text, chunks]) => {
      expect(read(chunks)).toEqual(expected(text));
    }),
    { numRuns: 1000 },
  );
});

it('drops an event that is not complete', () => {
  expect(read(['data: one\n\ndata: two\n'])).toEqual(['one']);
});

it('holds events up to its limit, and no longer ones, whether in lines or in one', () => {
  const each = (text: string) => [...text];
  expect(read(each(`data:${'x'.repeat(5)}\n\n`), 10)).toEqual(['xxxxx']);
  expect(errorCode(() => read(each(`data:${'x'.repeat(6)}\n\n`), 10))).toBe('message_too_large');
  expect(read(each('data:x\ndata:y\n\n'), 7)).toEqual(['x\ny']);
  expect(errorCode(() => read(each('data:x\ndata:y\n\n'), 6))).toBe('message_too_large');
  expect(errorCode(() => read(['x'.repeat(11)], 10))).toBe('message_too_large');
});

it('hands out the events before one that is too long', () => {
  const reader = new EventReader(10);
  const parts: string[] = [];
  const pushed = () => {
    for (const part of reader.push(`data:a\n\n${'x'.repeat(11)}`)) parts.push(part);
  };
  expect(errorCode(pushed)).toBe('message_too_large');
  expect(parts).toEqual(['a']);
});
