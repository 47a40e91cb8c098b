import fc from 'fast-check';
import { expect, it } from 'vitest';
import { bytesOf } from '../../../../protocol/src/base/testing/bytes.js';
import { elementsOf, MAX_SCANNED_DEPTH, MAX_SCANNED_VALUES, readText, scanObject } from './scan.js';

const scan = (text: string) => scanObject(bytesOf(text), ['model', 'conversation']);
const count = (text: string) => scan(text).found.get('model')?.count ?? 0;

it('counts keys at the top level only', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 3 }), fc.nat(3), (value, times) => {
      const inner = JSON.stringify({ model: value, x: ['model', { model: 1 }] });
      const members = [
        `"x":${inner}`,
        ...Array<string>(times).fill(`"model" : ${inner}`),
        `"y":"\\"model\\":"`,
      ];
      const json = `{${members.join(' ,\n')}}`;
      JSON.parse(json);
      expect(scan(json).fault).toBeUndefined();
      expect(count(json)).toBe(times);
      if (times > 0) {
        const { value: found } = scan(json).found.get('model') ?? { value: bytesOf('') };
        expect(new TextDecoder().decode(found)).toBe(inner);
      }
    }),
  );
});

it('accepts every JSON object and finds the value of its key', () => {
  const key = fc.constantFrom('model', 'Model', 'mode', 'models', 'x', 'conversation');
  fc.assert(
    fc.property(
      fc.array(fc.tuple(key, fc.jsonValue({ maxDepth: 3, stringUnit: 'grapheme' })), { maxLength: 6 }),
      fc.nat(2),
      (entries, indent) => {
        const members = entries.map(
          ([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value, null, indent)}`,
        );
        const { found, fault } = scan(`{${members.join(',')}}`);
        expect(fault).toBeUndefined();
        const models = entries.filter(([name]) => name.toLowerCase() === 'model');
        expect(found.get('model')?.count).toBe(models.length === 0 ? undefined : models.length);
        if (models.length === 0) return;
        expect(found.get('model')?.isExact).toBe(models.every(([name]) => name === 'model'));
        const value = new TextDecoder().decode(found.get('model')?.value);
        const counting = models.filter(([name]) => name === 'model').at(-1) ?? models.at(-1);
        expect(JSON.parse(value)).toEqual(JSON.parse(JSON.stringify(counting?.[1])));
      },
    ),
  );
});

it('accepts the structure that JSON.parse accepts, and no other', () => {
  const soup = fc.string({ unit: fc.constantFrom(...'{}[]",:\\u01e-. \n'), maxLength: 14 });
  fc.assert(
    fc.property(fc.oneof(soup, fc.json()), (text) => {
      let value: unknown;
      try {
        value = JSON.parse(`{"a":${text}}`);
      } catch {
        return;
      }
      expect(value).toBeDefined();
      expect(scan(`{"a":${text}}`).fault).toBeUndefined();
    }),
    { numRuns: 5000 },
  );
});

it.each([
  ['{"model":"a","mod\\u0065l":"b"}', 2, false],
  ['{"\\u006dodel":"a"}', 1, false],
  ['{"\\u004DODEL":"a"}', 1, false],
  ['{"Model":"a"}', 1, false],
  ['{"model":"a","MODEL":"b"}', 2, false],
  ['{"model":"a","model":"b"}', 2, true],
  ['{"a":"\\\\","model":"b"}', 1, true],
  ['{"a":"\\\\\\"","model":"b"}', 1, true],
  ['{"mode\\l":1}', 0, undefined],
  ['{"model\\u0000":1,"model ":1,"modèl":1,"\\u006Xodel":1}', 0, undefined],
  ['{}', 0, undefined],
])('%s has the key %i times', (json, times, isExact) => {
  expect(scan(json).fault).toBeUndefined();
  expect(count(json)).toBe(times);
  expect(scan(json).found.get('model')?.isExact).toBe(isExact);
});

it('finds a key in each character that a reader which ignores case takes for letters of ASCII', () => {
  const isAscii = (text: string) => /^[\0-\x7f]+$/.test(text);
  const folding: string[] = [];
  for (let code = 0x80; code < 0x110000; code++) {
    if (code >= 0xd800 && code < 0xe000) continue;
    const character = String.fromCodePoint(code);
    const lower = character.toLowerCase();
    // Readers that compare character by character read the i with a dot of Turkish without its dot.
    for (const form of new Set([lower.toUpperCase().toLowerCase(), lower.replace('\u0307', '')])) {
      if (!isAscii(form)) continue;
      folding.push(character);
      for (const written of [character, `\\u${code.toString(16).padStart(4, '0')}`]) {
        const { found } = scanObject(bytesOf(`{"<${written}>":1}`), [`<${form}>`]);
        expect(found.get(`<${form}>`), written).toMatchObject({ count: 1, isExact: false });
      }
    }
  }
  expect(folding.join('')).toBe(
    '\u00df\u0130\u0131\u017f\u1e9e\u212a\ufb00\ufb01\ufb02\ufb03\ufb04\ufb05\ufb06',
  );
});

it('takes no other character for a letter', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', minLength: 1 }), (text) => {
      fc.pre(!/[ksıİſK]/iu.test(text));
      for (const key of [`${text}sk`, `s${text}k`, `sk${text}`])
        expect(scanObject(bytesOf(JSON.stringify({ [key]: 1 })), ['sk']).found.size).toBe(0);
    }),
  );
  for (const key of ['s\\u017', 's\\u212b', 's\u0085', 's\u{1d574}'])
    expect(scanObject(bytesOf(`{"${key}":1}`), ['sk', 'si']).found.size).toBe(0);
});

it('splits an array into its elements', () => {
  fc.assert(
    fc.property(
      fc.array(fc.jsonValue({ stringUnit: 'grapheme' }), { minLength: 1 }),
      fc.nat(2),
      (list, indent) => {
        const elements = [...elementsOf(bytesOf(JSON.stringify(list, null, indent)))];
        const values = elements.map((element) => JSON.parse(new TextDecoder().decode(element)) as unknown);
        expect(values).toEqual(JSON.parse(JSON.stringify(list)));
      },
    ),
  );
  for (const other of ['{"a":[1]}', '"[1,2]"', '1', '']) expect([...elementsOf(bytesOf(other))]).toEqual([]);
});

it.each([
  '',
  ' ',
  '"model"',
  '["model"]',
  '[{"model":"a"}]',
  '1',
  'null',
  '{',
  '}',
  '{"model":"a"',
  '{"model":"a"]',
  '{"x":[1}}',
  '{"model":"a"}}',
  '{"model":"a"}{"model":"b"}',
  '{"model":"a"}, "model":"b"',
  '{"model":"a",}',
  '{"model" "a"}',
  '{"model":}',
  '{"model":"a" "b":1}',
  '{,"model":"a"}',
  '{"x":[1,],"model":"a"}',
  '{"x":[,1],"model":"a"}',
  '{"x":[1 2],"model":"a"}',
  '{"x":["a":1],"model":"a"}',
  '{"x","model":"a"}',
  '{model:"a"}',
  "{'model':'a'}",
  '{"model":"a"/*,"model":"b"*/}',
  '{"model":"a"//\n}',
  '\ufeff{"model":"a"}',
  '{"model":"a\\"}',
])('%s is malformed', (json) => {
  expect(scan(json).fault).toBe('malformed');
});

it('bounds values and levels exactly at the limit', () => {
  // The key, its array, and the elements.
  const list = (length: number) => `{"x":[${new Array(length).fill(0).join()}]}`;
  expect(scan(list(MAX_SCANNED_VALUES - 3)).fault).toBeUndefined();
  expect(scan(list(MAX_SCANNED_VALUES - 2)).fault).toBe('beyond_limits');
  const nested = (depth: number) => `{"x":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`;
  expect(scan(nested(MAX_SCANNED_DEPTH)).fault).toBeUndefined();
  expect(scan(nested(MAX_SCANNED_DEPTH + 1)).fault).toBe('beyond_limits');
});

it('finds a key after a million backslashes in one pass', () => {
  const json = JSON.stringify({ image: `${'\\'.repeat(1_000_000)}"${'x'.repeat(1_000_000)}`, model: 'a' });
  expect(count(json)).toBe(1);
});

it('recognises escaped quotes at any position', () => {
  for (const length of [0, 1, 254, 255, 256, 257, 511, 512, 513]) {
    for (const escapes of ['\\"', '\\\\', '\\\\\\"', '\\\\\\\\']) {
      const json = `{"x":"${'x'.repeat(length)}${escapes}${'y'.repeat(length)}","model":"a"}`;
      JSON.parse(json);
      expect(count(json)).toBe(1);
    }
  }
});

it('reads a value as text only if it is a valid string', () => {
  expect(readText(bytesOf('"g\\u0070t"'))).toBe('gpt');
  for (const other of ['1', 'null', '["a"]', '"\\x"']) expect(readText(bytesOf(other))).toBeUndefined();
  expect(readText(Uint8Array.of(0x22, 0xff, 0x22))).toBeUndefined();
});
