import fc from 'fast-check';
import { expect, it } from 'vitest';
import { decodeUtf8, encodeUtf8 } from '../../base/text.js';
import { errorCode } from '../../testing/error-code.js';
import { EventParts } from './event-parts.js';
import { asIsOf, eventTextOf } from './events.js';

const options = { maxSize: 1000, hasSigns: true, now: () => 0 };
const bytesOf = (part: string | Uint8Array) => (typeof part === 'string' ? encodeUtf8(part) : part);

function read(chunks: readonly (string | Uint8Array)[], more = {}): (string | Uint8Array)[] {
  const events = new EventParts({ ...options, ...more });
  return [...chunks.flatMap((chunk) => [...events.push(bytesOf(chunk))]), ...events.end()];
}

/** As `session.fetch` writes it. */
const written = (parts: readonly (string | Uint8Array)[]): Uint8Array =>
  Buffer.concat(
    parts.map((part) => asIsOf(bytesOf(part)) ?? encodeUtf8(eventTextOf(decodeUtf8(bytesOf(part))))),
  );

it('passes on events, what follows them, and what is none, wherever the bytes are cut', () => {
  const texts = fc.constantFrom(
    'data: a\n\ndata: b\n\n',
    'data: a\n\ndata: b',
    'data: a\n\ndata: {"choi',
    'event: x\ndata: ü👋\n\n{"error":1}',
    'data',
    'da',
    '',
    '\n\n',
    '{"error":{"message":"no"}}',
    '{"a":1}\n\ndata: x\n\n',
    '<!doctype html>\n<p>Ü👋</p>\n\n',
    'dataset: x\n\n',
    'error: no\n\n',
    '\ufeff{"a":1}',
  );
  const cases = texts.chain((text) => {
    const bytes = encodeUtf8(text);
    return fc.tuple(fc.constant(bytes), fc.array(fc.nat(bytes.length), { maxLength: 6 }));
  });
  fc.assert(
    fc.property(cases, ([bytes, places]) => {
      const ends = [...places.sort((a, b) => a - b), bytes.length];
      const chunks = ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end));
      expect(Buffer.from(written(read(chunks))).toString()).toBe(Buffer.from(bytes).toString());
    }),
    { numRuns: 1000 },
  );
});

it('keeps bytes that are not UTF-8, but in events', () => {
  const notText = Uint8Array.of(0x7b, 0xf0, 0x9f, 0x22, 0xff, 0x7d);
  expect([...written(read([notText]))]).toEqual([...notText]);
  expect(read([encodeUtf8('data: a'), Uint8Array.of(0xf0, 0x9f), 'b\n\n'])).toEqual(['a\ufffdb']);
});

it('takes events behind a byte order mark and blank lines for events', () => {
  expect(read(['\ufeffdata: a\n\n'])).toEqual(['a']);
  expect(read([...Array.from(encodeUtf8('\ufeff\r\n\ndata: a\n\n'), (byte) => Uint8Array.of(byte))])).toEqual(
    ['a'],
  );
});

it('shows at most once a second, by an empty part, that the source lives', () => {
  let now = 0;
  const events = new EventParts({ ...options, now: () => now });
  const push = (text: string) => [...events.push(encodeUtf8(text))];
  expect(push(': a\n')).toEqual(['']);
  expect(push(': b\n')).toEqual([]);
  now = 999;
  expect(push(': c\n')).toEqual([]);
  now = 1000;
  expect(push(': d\n\n')).toEqual(['']);
  now = 5000;
  // The event shows it.
  expect(push(': e\ndata: x\n\n')).toEqual(['x']);
  expect(push('data: y\n')).toEqual([]);
});

it('shows nothing in a reply whose parts are counted', () => {
  expect(read([': a\n\n', 'data: x\n\n'], { hasSigns: false })).toEqual(['x']);
});

it('has a limit in bytes', () => {
  expect(read([`data: ${'ü'.repeat(500)}\n\n`])).toEqual(['ü'.repeat(500)]);
  expect(errorCode(() => read([`data: ${'ü'.repeat(500)}x\n\n`]))).toBe('message_too_large');
});
