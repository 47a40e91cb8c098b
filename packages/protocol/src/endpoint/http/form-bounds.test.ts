import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeUtf8 } from '../../base/text.js';
import { errorCode } from '../../testing/error-code.js';
import { formBoundsOf, MAX_FIELDS, MAX_HEADS } from './form-bounds.js';

const FORM = 'multipart/form-data; boundary=b';
const PAIRS = 'application/x-www-form-urlencoded';
const FIELD = '--b\r\ncontent-disposition: form-data; name="a"\r\n\r\n\r\n';
const END = '--b--\r\n';

/** The bound that a text exceeds, pushed in pieces of `size` bytes. */
function excessOf(type: string, text: string, size = Infinity): string | undefined {
  const bounds = formBoundsOf(type);
  const bytes = encodeUtf8(text);
  for (let at = 0; at < bytes.length; at += size) {
    const excess = bounds?.push(bytes.subarray(at, at + size));
    if (excess !== undefined) return excess;
  }
  return undefined;
}

describe('a form', () => {
  it.each([Infinity, 1, 7])('may have %s bytes in a piece and a thousand fields', (size) => {
    expect(excessOf(FORM, FIELD.repeat(MAX_FIELDS) + END, size)).toBeUndefined();
    expect(excessOf(FORM, FIELD.repeat(MAX_FIELDS + 1) + END, size)).toBe('at most 1000 fields');
    expect(excessOf(PAIRS, `a=1${'&a'.repeat(MAX_FIELDS - 1)}`, size)).toBeUndefined();
    expect(excessOf(PAIRS, `a=1${'&a'.repeat(MAX_FIELDS)}`, size)).toBe('at most 1000 fields');
  });

  it('takes little memory while it passes by', () => {
    const type = `multipart/form-data; boundary=${'b'.repeat(70)}`;
    const before = process.memoryUsage().arrayBuffers;
    const forms = Array.from({ length: 1_000 }, () => formBoundsOf(type));
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(forms.length * 1_024);
  });

  it('may have so many bytes of names, in one field or in all', () => {
    const named = (name: string) => `--b\r\n${name}\r\n\r\n`;
    const least = '\r\n\r\n\r\n'.length;
    const longest = 'x'.repeat(MAX_HEADS - least);
    expect(excessOf(FORM, named(longest))).toBeUndefined();
    expect(excessOf(FORM, named(`${longest}x`))).toMatch('bytes of names');
    const half = 'x'.repeat(MAX_HEADS / 2 - least);
    expect(excessOf(FORM, `${named(half)}content${named(half)}content`)).toBeUndefined();
    expect(excessOf(FORM, `${named(half)}content${named(`${half}x`)}`)).toMatch('bytes of names');
    expect(excessOf(FORM, `${named('x')}${'content'.repeat(MAX_HEADS)}`)).toBeUndefined();
  });

  it('has at least the fields that the parser of the platform finds', async () => {
    const pieces = fc.constantFrom(
      '-',
      '--',
      '--b',
      '\r\n--b',
      'b',
      '\r\n',
      '\r',
      '\n',
      'x',
      FIELD,
      `\r\n${FIELD}`,
    );
    const boundaries = fc.constantFrom('b', 'bb', '-b', '--', 'b-b');
    await fc.assert(
      fc.asyncProperty(
        fc.array(pieces, { maxLength: 12 }),
        boundaries,
        fc.integer({ min: 1, max: 9 }),
        async (some, boundary, size) => {
          const body = `${FIELD}${some.join('')}\r\n${END}`.replaceAll('--b', `--${boundary}`);
          const type = `multipart/form-data; boundary=${boundary}`;
          const request = new Request('http://x', {
            method: 'POST',
            body,
            headers: { 'content-type': type },
          });
          const parsed = await request.formData().then(
            (form) => [...form].length,
            () => 0,
          );
          // Repeated until what the parser has found is beyond the bound.
          if (parsed < 2) return;
          const times = Math.ceil((MAX_FIELDS + 2) / parsed);
          expect(excessOf(type, body.repeat(times), size)).toBeDefined();
        },
      ),
    );
  });
});

it('looks at forms only', () => {
  for (const type of [undefined, 'application/json', 'text/plain; boundary=b', 'multipart/mixed; boundary=b'])
    expect(formBoundsOf(type)).toBeUndefined();
});

it.each([
  'multipart/form-data',
  'multipart/form-data; boundary=',
  'multipart/form-data; boundary="b',
  'multipart/form-data; boundary="a b"',
  'multipart/form-data; boundary=a; boundary=b',
  'multipart/form-data; boundary=b, text/plain',
  'text/plain, multipart/form-data; boundary=b',
  `multipart/form-data; boundary=${'b'.repeat(71)}`,
])('refuses a form that parsers may read differently: %s', (type) => {
  expect(errorCode(() => formBoundsOf(type))).toBe('bad_message');
});

it.each([
  'multipart/form-data;boundary="b"',
  'Multipart/Form-Data; charset=utf-8; Boundary=b',
  'multipart/form-data; boundary=b;',
])('reads the boundary of %s', (type) => {
  expect(excessOf(type, FIELD.repeat(MAX_FIELDS + 2))).toBe('at most 1000 fields');
});
