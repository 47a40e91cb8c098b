import fc from 'fast-check';
import { expect, it } from 'vitest';
import { countTopLevelKey } from './models.js';

it('a key of the object itself is counted, of what is in it not', () => {
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
      expect(countTopLevelKey(json, 'model')).toBe(times);
    }),
  );
});

it.each([
  ['{"model":"a","mod\\u0065l":"b"}', 2],
  ['{"\\u006dodel":"a"}', 1],
  ['{"a":"\\\\","model":"b"}', 1],
  ['{"a":"\\\\\\"","model":"b"}', 1],
  ['["model"]', 0],
  ['[{"model":"a"}]', 0],
  ['"model"', 0],
  ['{}', 0],
])('%s has it %i times', (json, times) => {
  JSON.parse(json);
  expect(countTopLevelKey(json, 'model')).toBe(times);
});

it('a key behind a million backslashes is found in one pass', () => {
  const json = JSON.stringify({ image: `${'\\'.repeat(1_000_000)}"${'x'.repeat(1_000_000)}`, model: 'a' });
  expect(countTopLevelKey(json, 'model')).toBe(1);
});
