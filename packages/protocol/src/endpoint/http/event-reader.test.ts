import fc from 'fast-check';
import { expect, it } from 'vitest';
import { errorCode } from '../../testing/error-code.js';
import { EventReader } from './event-reader.js';
import { encodeEventPart } from './events.js';

function read(chunks: readonly string[], maxLength = Infinity): string[] {
  const reader = new EventReader(maxLength);
  return chunks.flatMap((chunk) => [...reader.push(chunk)]);
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

it('hands out an event with its blank line, also if that is a carriage return', () => {
  const reader = new EventReader(Infinity);
  expect([...reader.push('data: one\r\r')]).toEqual(['one']);
  expect([...reader.push('\ndata: two\r\n\r')]).toEqual(['two']);
  expect([...reader.push('\ndata: three\r')]).toEqual([]);
  expect([...reader.push('\r')]).toEqual(['three']);
});

it('has what follows the last blank line, as it came', () => {
  const end = fc.constantFrom('\n', '\r\n', '\r');
  const rest = fc.constantFrom(
    '',
    'data: two',
    'data: two\n',
    'data: a\r\ndata: b\r',
    'data: a\r\ndata: b\r\n',
    '{"error":1}',
    ': bye\r',
  );
  const cases = fc.tuple(end, rest).chain(([line, last]) => {
    const text = `data: one${line}: x${line}${line}${last}`;
    return fc.tuple(fc.constant(last), cut(text));
  });
  fc.assert(
    fc.property(cases, ([last, chunks]) => {
      const reader = new EventReader(Infinity);
      for (const chunk of chunks) for (const _part of reader.push(chunk));
      expect(reader.rest()).toBe(last);
    }),
    { numRuns: 1000 },
  );
});

it('hands out events up to its limit, and no longer ones', () => {
  expect(read(['data:xxxxx\n\n'], 5)).toEqual(['xxxxx']);
  expect(errorCode(() => read(['data:xxxxxx\n\n'], 5))).toBe('message_too_large');
  expect(read(['data:x\ndata:y\n\n'], 3)).toEqual(['x\ny']);
  expect(errorCode(() => read(['data:x\ndata:y\n\n'], 2))).toBe('message_too_large');
});

it('holds no more of an event than its limit and some names', () => {
  const pieces = Array.from({ length: 2048 }, () => 'x');
  expect(read(pieces.slice(0, 10 + 1024), 10)).toEqual([]);
  expect(errorCode(() => read(pieces.slice(0, 11 + 1024), 10))).toBe('message_too_large');
  const lines = Array.from({ length: 300 }, () => 'data\n');
  expect(errorCode(() => read(lines, 10))).toBe('message_too_large');
});

it('hands out the events before one that is too long', () => {
  const reader = new EventReader(10);
  const parts: string[] = [];
  const pushed = () => {
    for (const part of reader.push(`data:a\n\n${'x'.repeat(10 + 1025)}`)) parts.push(part);
  };
  expect(errorCode(pushed)).toBe('message_too_large');
  expect(parts).toEqual(['a']);
});
