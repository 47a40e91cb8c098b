import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { GatewayFailure } from './failure.js';
import { boundaryOf, FormScan } from './form.js';

const B = 'x1y2';
const field = (head: string, content: string) => `--${B}\r\n${head}\r\n\r\n${content}\r\n`;
const named = (name: string, content: string) =>
  field(`Content-Disposition: form-data; name="${name}"`, content);
const file = (content: string, filename = 'a.mp3') =>
  field(
    `Content-Disposition: form-data; name="file"; filename="${filename}"\r\nContent-Type: audio/mpeg`,
    content,
  );
const END = `--${B}--`;

/** The model that a form names, or why it is refused. */
function outcome(form: string, cuts: readonly number[] = []): string {
  const bytes = Buffer.from(form, 'latin1');
  const seen: string[] = [];
  const scan = new FormScan(B, (model) => void seen.push(model));
  try {
    const places = [0, ...cuts.filter((cut) => cut < bytes.length).sort((a, b) => a - b), bytes.length];
    for (const [index, end] of places.slice(1).entries()) scan.push(bytes.subarray(places[index], end));
    scan.end();
    return seen.join('|');
  } catch (error) {
    if (error instanceof GatewayFailure) return error.message.replace('the form cannot be checked: ', '');
    throw error;
  }
}

const FORM = file('\0\xff\r\n--x1\r\n-data') + named('model', 'whisper-1') + named('language', 'de') + END;

it('finds the model of a form, wherever it is cut', () => {
  expect(outcome(FORM)).toBe('whisper-1');
  expect(outcome(`${FORM}\r\n`)).toBe('whisper-1');
  fc.assert(
    fc.property(fc.array(fc.nat(FORM.length), { maxLength: 12 }), (cuts) => {
      expect(outcome(FORM, cuts)).toBe('whisper-1');
    }),
  );
  expect(
    outcome(
      FORM,
      Array.from({ length: FORM.length }, (_, at) => at),
    ),
  ).toBe('whisper-1');
});

it('reports the model before the end of the form was passed on', () => {
  const seen: string[] = [];
  const scan = new FormScan(B, (model) => void seen.push(model));
  scan.push(Buffer.from(named('model', 'm')));
  expect(seen).toEqual([]);
  scan.push(Buffer.from(`--${B}\r\n`));
  expect(seen).toEqual(['m']);
});

const lf = (text: string) => text.replaceAll('\r\n', '\n');
describe('refuses what parsers may read differently', () => {
  it.each([
    ['no model', file('x') + END, 'it names no model'],
    ['two models', named('model', 'a') + named('model', 'b') + END, 'it names its model more than once'],
    [
      'the same model twice',
      named('model', 'a') + named('model', 'a') + END,
      'it names its model more than once',
    ],
    ['a model in capitals', named('model', 'a') + named('MODEL', 'b') + END, 'it has a field like'],
    ['a list of models', named('model', 'a') + named('model[]', 'b') + END, 'it has a field like'],
    ['a blank before the name', named('model', 'a') + named(' model', 'b') + END, 'it has a field like'],
    ['a property of a model', named('model', 'a') + named('model.id', 'b') + END, 'it has a field like'],
    [
      'a file as model',
      field('Content-Disposition: form-data; name="model"; filename="x"', 'a') + END,
      'it has a field like',
    ],
    ['line feeds alone', lf(named('model', 'a') + END), 'its boundary is part of its content'],
    [
      'a field in a file, with line feeds alone',
      file(`x\n--${B}\nContent-Disposition: form-data; name="model"\n\nb\n`) + named('model', 'a') + END,
      'its boundary is part of its content',
    ],
    [
      'a longer boundary',
      file(`\r\n--${B}z`) + named('model', 'a') + END,
      'its boundary is part of its content',
    ],
    [
      'a boundary with blanks',
      `--${B} \r\n${named('model', 'a')}${END}`,
      'its boundary is part of its content',
    ],
    ['something before it', `x\r\n${named('model', 'a')}${END}`, 'it has no boundary'],
    [
      'something after it',
      `${named('model', 'a')}${END}\r\n${named('model', 'b')}`,
      'something follows its end',
    ],
    ['a second end', `${named('model', 'a')}${END}\r\n${END}`, 'something follows its end'],
    ['an escaped name', named('mo%64el', 'a') + END, 'a field has an unusual head'],
    [
      'a backslash',
      named('file', 'x') + field('Content-Disposition: form-data; name="a\\"; name="model"', 'b') + END,
      'a field has an unusual head',
    ],
    [
      'a name without quotes',
      field('Content-Disposition: form-data; name=model', 'a') + END,
      'a field has an unusual head',
    ],
    [
      'an extended name',
      field("Content-Disposition: form-data; name*=UTF-8''model", 'a') + END,
      'a field has an unusual head',
    ],
    [
      'two names',
      field('Content-Disposition: form-data; name="a"; name="model"', 'a') + END,
      'a field has an unusual head',
    ],
    [
      'two dispositions',
      field('Content-Disposition: form-data; name="a"\r\nContent-Disposition: form-data; name="model"', 'a') +
        END,
      'a field has an unusual head',
    ],
    [
      'a folded head',
      field('Content-Disposition: form-data;\r\n name="model"', 'a') + END,
      'a field has an unusual head',
    ],
    [
      'a coded field',
      field('Content-Disposition: form-data; name="model"\r\nContent-Transfer-Encoding: base64', 'YQ==') +
        END,
      'a field has an unusual head',
    ],
    [
      'a carriage return in a name',
      field('Content-Disposition: form-data; name="mod\rel"', 'a') + END,
      'a field has an unusual head',
    ],
    ['no name', field('Content-Type: text/plain', 'a') + END, 'a field has an unusual head'],
    ['no end', named('model', 'a'), 'it is not complete'],
    ['half an end', `${named('model', 'a')}--${B}-`, 'it is not complete'],
    ['nothing', '', 'it is not complete'],
  ])('%s', (_what, form, reason) => {
    expect(outcome(form)).toContain(reason);
    expect(outcome(form, [1, 5, 20, 40, 41, 60, 80])).toContain(reason);
  });
});

it.each([
  ['the name of a model', 1024, (n: number) => named('model', 'm'.repeat(n)) + END],
  ['fields', 1000, (n: number) => named('model', 'm') + named('a', '').repeat(n - 1) + END],
  [
    'the head of a field',
    4096,
    (n: number) => {
      const head = 'Content-Disposition: form-data; name="model"\r\nContent-Type: ';
      return field(head + 'x'.repeat(n - head.length), 'm') + END;
    },
  ],
])('%s may be %i and no more', (_what, limit, form) => {
  expect(outcome(form(limit))).toMatch(/^m+$/);
  expect(outcome(form(limit + 1))).toMatch(/too long|more than|long head/);
});

it('keeps no more of a large file than it has to look at', () => {
  const scan = new FormScan(B, () => {});
  scan.push(Buffer.from(file('').slice(0, -2)));
  const piece = Buffer.alloc(64 * 1024, 'x');
  const before = process.memoryUsage().arrayBuffers;
  for (let i = 0; i < 4096; i++) scan.push(piece);
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(128 * 1024 * 1024);
  scan.push(Buffer.from(`\r\n${named('model', 'm')}${END}`));
  scan.end();
  expect(scan.model).toBe('m');
});

it.each([
  ['multipart/form-data; boundary=----formdata-undici-012345678901', '----formdata-undici-012345678901'],
  ['multipart/form-data; boundary=----WebKitFormBoundaryAbC1', '----WebKitFormBoundaryAbC1'],
  ['Multipart/Form-Data;boundary="a.b_c"', 'a.b_c'],
  ['multipart/form-data', undefined],
  ['multipart/form-data; boundary=', undefined],
  ['multipart/form-data; boundary=a b', undefined],
  ['multipart/form-data; boundary=a; boundary=b', undefined],
  ['multipart/form-data; charset=utf-8; boundary=a', undefined],
  ['multipart/mixed; boundary=a', undefined],
  [undefined, undefined],
])('the boundary of %s is %s', (type, boundary) => {
  expect(boundaryOf(type)).toBe(boundary);
});
