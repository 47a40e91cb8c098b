import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { errorCode } from '../testing/error-code.js';
import {
  assertJsonBounds,
  assertPairedEscapes,
  type JsonLimits,
  memoryOfContent,
  parseContent,
  parseJson,
} from './json.js';
import { DEFAULT_LIMITS, resolveLimits } from './limits.js';

const limits = (changes: Partial<JsonLimits>): JsonLimits => ({ ...DEFAULT_LIMITS, ...changes });
const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);
const elements = (count: number) => JSON.stringify(new Array(count).fill(0));

/** The figures that the pass must find, computed from the value. */
function measure(value: unknown): { depth: number; longest: number; widest: number; values: number } {
  if (typeof value === 'string') return { depth: 0, longest: Buffer.byteLength(value), widest: 0, values: 1 };
  if (typeof value !== 'object' || value === null) return { depth: 0, longest: 0, widest: 0, values: 1 };
  const strings = Array.isArray(value) ? [] : Object.keys(value);
  const inner = [...strings, ...Object.values(value)].map(measure);
  const most = (of: (m: ReturnType<typeof measure>) => number) => Math.max(0, ...inner.map(of));
  return {
    depth: 1 + most((m) => m.depth),
    longest: most((m) => m.longest),
    widest: Math.max(
      Array.isArray(value) ? value.length : 0,
      most((m) => m.widest),
    ),
    values: inner.reduce((sum, m) => sum + m.values, 1),
  };
}

/** JSON whose strings are all escapes, so that source and value differ in length. */
function writeEscaped(value: unknown): string {
  if (typeof value === 'string') {
    const units = Array.from({ length: value.length }, (_, i) => value.charCodeAt(i));
    return `"${units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('')}"`;
  }
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(writeEscaped).join()}]`;
  return `{${Object.entries(value)
    .map((entry) => entry.map(writeEscaped).join(':'))
    .join()}}`;
}

describe('parseJson', () => {
  it('returns what JSON.parse returns', () => {
    fc.assert(
      fc.property(fc.json(), fc.nat(4), (text, indent) => {
        const value = JSON.parse(text);
        expect(parseJson(JSON.stringify(value, null, indent))).toEqual(value);
      }),
    );
  });

  it('accepts and refuses what JSON.parse accepts and refuses', () => {
    const soup = fc.string({ unit: fc.constantFrom(...'[]{}",:\\u019eEn-+. \n\u0001tre'), maxLength: 12 });
    fc.assert(
      fc.property(fc.oneof(soup, fc.json(), mutated(fc.json())), (text) => {
        let valid = true;
        try {
          JSON.parse(text);
        } catch {
          valid = false;
        }
        expect(errorCode(() => parseJson(text))).toBe(valid ? 'none' : 'bad_json');
      }),
      { numRuns: 2000 },
    );
  });

  it('refuses a byte-order mark and trailing commas, keeps the last of equal keys', () => {
    expect(errorCode(() => parseJson('\ufeff{}'))).toBe('bad_json');
    expect(errorCode(() => parseJson('[1,]'))).toBe('bad_json');
    expect(errorCode(() => parseJson(''))).toBe('bad_json');
    expect(parseJson('{"a":1,"a":2}')).toEqual({ a: 2 });
  });
});

describe('JSON limits', () => {
  it('accept n and refuse n + 1', () => {
    expect(errorCode(() => parseJson(nested(32)))).toBe('none');
    expect(errorCode(() => parseJson(nested(33)))).toBe('json_too_deep');
    expect(errorCode(() => parseJson(elements(10_000)))).toBe('none');
    expect(errorCode(() => parseJson(elements(10_001)))).toBe('array_too_long');
    const max = DEFAULT_LIMITS.maxStringLength;
    expect(errorCode(() => assertJsonBounds(`["${'x'.repeat(max)}"]`))).toBe('none');
    expect(errorCode(() => assertJsonBounds(`["${'x'.repeat(max + 1)}"]`))).toBe('string_too_long');
  });

  it('count exactly the size of the value', () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 4, stringUnit: 'grapheme' }), fc.boolean(), (plain, asEscapes) => {
        const value = JSON.parse(plain);
        const json = asEscapes ? writeEscaped(value) : plain;
        const { depth, longest, widest, values } = measure(value);
        const tight = {
          maxJsonDepth: depth,
          maxArrayLength: widest,
          maxStringLength: longest,
          maxJsonValues: values,
        };
        expect(errorCode(() => assertJsonBounds(json, tight))).toBe('none');
        if (depth === 0) return; // a string that is the whole document has no limit here
        expect(errorCode(() => assertJsonBounds(json, { ...tight, maxJsonDepth: depth - 1 }))).toBe(
          'json_too_deep',
        );
        if (widest > 0) {
          expect(errorCode(() => assertJsonBounds(json, { ...tight, maxArrayLength: widest - 1 }))).toBe(
            widest > 1 ? 'array_too_long' : 'none', // limits are positive, so one element always passes
          );
        }
        if (values > 1) {
          expect(errorCode(() => assertJsonBounds(json, { ...tight, maxJsonValues: values - 1 }))).toBe(
            'too_many_values',
          );
        }
        if (longest > 0) {
          expect(errorCode(() => assertJsonBounds(json, { ...tight, maxStringLength: longest - 1 }))).toBe(
            'string_too_long',
          );
        }
      }),
      { numRuns: 500 },
    );
  });

  it('do not count keys, elements of inner arrays or commas of objects as elements', () => {
    const few = limits({ maxArrayLength: 2, maxStringLength: 3 });
    expect(errorCode(() => parseJson('{"abcd":1}', few))).toBe('string_too_long');
    expect(errorCode(() => parseJson('[[1,2],[{"a":[1,2,3]}]]', few))).toBe('array_too_long');
    expect(errorCode(() => parseJson('[{"a":1,"b":2,"c":3,"d":4},[1,2]]', few))).toBe('none');
    expect(errorCode(() => parseJson('["a,b","]"]', few))).toBe('none');
    expect(errorCode(() => parseJson('["\\"","\\\\"]', few))).toBe('none');
  });

  it('count values in total, keys included, however they are spread', () => {
    const max = DEFAULT_LIMITS.maxJsonValues;
    // The document, 16 arrays and their elements.
    const spread = (values: number) => {
      const rest = values - 17;
      const each = Math.floor(rest / 16);
      const sizes = Array.from({ length: 16 }, (_, i) => (i === 0 ? rest - 15 * each : each));
      return `[${sizes.map((size) => `[${new Array(size).fill('{}').join(' , ')}]`).join('\n,')}]`;
    };
    expect(errorCode(() => parseJson(spread(max)))).toBe('none');
    expect(errorCode(() => parseJson(spread(max + 1)))).toBe('too_many_values');
    const members = (count: number) =>
      `{${Array.from({ length: count }, (_, i) => `"${i}": [ ]`).join(',')}}`;
    expect(errorCode(() => parseJson(members(max / 2 - 1)))).toBe('none');
    expect(errorCode(() => parseJson(members(max / 2)))).toBe('too_many_values');
  });

  it('leave room for a batch of vectors', () => {
    const vector = `[${new Array(10_000).fill('-0.0123').join(',')}]`;
    const data = new Array(10).fill(`{"object":"embedding","embedding":${vector}}`).join(',');
    expect(errorCode(() => parseJson(`{"object":"list","data":[${data}]}`))).toBe('none');
  });

  it('do not apply to a string that is the whole document', () => {
    const short = limits({ maxStringLength: 3 });
    expect(errorCode(() => parseJson('"abcd"', short))).toBe('none');
    expect(errorCode(() => parseJson('["abcd"]', short))).toBe('string_too_long');
  });

  it('can be turned off', () => {
    const off = {
      maxJsonDepth: Infinity,
      maxArrayLength: Infinity,
      maxStringLength: Infinity,
      maxJsonValues: Infinity,
    };
    expect(errorCode(() => assertJsonBounds(nested(5000), off))).toBe('none');
    expect(errorCode(() => assertJsonBounds(elements(150_000), off))).toBe('none');
  });

  it('are checked without recursion, however deep the text', () => {
    expect(errorCode(() => parseJson('['.repeat(8_000_000)))).toBe('json_too_deep');
    expect(errorCode(() => parseJson('{"a":'.repeat(1_000_000)))).toBe('json_too_deep');
    expect(errorCode(() => parseJson(`"${'\\'.repeat(8_000_001)}"`))).toBe('bad_json');
    expect(errorCode(() => parseJson(`["${'\\"'.repeat(1_000_000)}"]`))).toBe('none');
  });
});

describe('the content of a message', () => {
  const LARGEST = DEFAULT_LIMITS.maxMessageSize;
  /** As text that people and programs write: compressed to a tenth. */
  const read = (text: string, limits = resolveLimits()) => {
    let memory = 0;
    const onMemory = (bytes: number) => {
      memory = bytes;
    };
    const code = errorCode(() => parseContent(text, limits, { paid: text.length / 10, onMemory }));
    return { code, memory };
  };
  const rows = (count: number) =>
    JSON.stringify(
      Array.from({ length: count }, (_, row) =>
        Object.fromEntries(Array.from({ length: 25 }, (_, column) => [`column ${column}`, row])),
      ),
    );

  it.each([
    ['a file of nearly the message limit', () => JSON.stringify({ url: 'A'.repeat(LARGEST - 100) })],
    ['a list of a million tokens', () => JSON.stringify(Array.from({ length: 1e6 }, (_, i) => i))],
    ['vectors of the message limit', () => `[${new Array(1_800_000).fill('-0.01234').join()}]`],
    ['a table of 1.25 million cells', () => rows(50_000)],
    ['33 levels', () => nested(33)],
    ['1,000 levels', () => nested(1_000)],
    ['50,000 different keys', () => `{${Array.from({ length: 50_000 }, (_, i) => `"k${i}":${i}`).join()}}`],
  ])('may be %s', (_name, make) => {
    const { code, memory } = read(make());
    expect(code).toBe('none');
    expect(memory).toBeLessThanOrEqual(LARGEST * 2);
  });

  it.each([
    ['braces', () => `[${'{},'.repeat(1e6)}{}]`],
    ['brackets', () => `[${'[],'.repeat(1e6)}[]]`],
    ['levels', () => nested(10_000)],
    ['levels of objects', () => `${'{"a":'.repeat(10_000)}0${'}'.repeat(10_000)}`],
    ['keys that differ', () => `{${Array.from({ length: 3e5 }, (_, i) => `"${i.toString(36)}":0`).join()}}`],
    ['zeros', () => `[${'0,'.repeat(8e6)}0]`],
  ])('may not be mere %s, of which nothing is built', (_name, make) => {
    const { code, memory } = read(make());
    expect([code, memory]).toEqual(['too_many_values', 0]);
  });

  it('takes no more than half of the message limit and 32 bytes for each one sent, and twice that limit', () => {
    const limits = resolveLimits({ maxMessageSize: 10_000 });
    expect([0, 100, 1_000].map((paid) => memoryOfContent(limits, paid))).toEqual([5_000, 8_200, 20_000]);
    // A list takes 48 bytes and a level of 4,096; each element 8.
    const fits = Math.floor((5_000 - 48 - 4_096) / 8);
    const of = (count: number, paid = 0) => errorCode(() => parseContent(elements(count), limits, { paid }));
    expect([of(fits), of(fits + 1), of(fits + 1, 1)]).toEqual(['none', 'too_many_values', 'none']);
  });

  it('costs little for keys that objects share, and much for keys that differ', () => {
    const memoryOf = (keyOf: (i: number) => string) =>
      read(`[${Array.from({ length: 20_000 }, (_, i) => `{"${keyOf(i)}":0}`).join()}]`).memory / 20_000;
    expect(memoryOf(() => 'name')).toBeLessThan(100);
    expect(memoryOf((i) => `${1e6 + i}`)).toBeGreaterThan(150);
  });

  it('has the counts that the application sets, defaults included', () => {
    for (const [limits, text, code] of [
      [{ maxJsonDepth: 32 }, nested(33), 'json_too_deep'],
      [{ maxArrayLength: 10_000 }, elements(10_001), 'array_too_long'],
      [{ maxStringLength: 3 }, '["abcd"]', 'string_too_long'],
      [{ maxJsonValues: 131_072 }, rows(3_000), 'too_many_values'],
    ] as const) {
      expect(read(text, resolveLimits(limits)).code).toBe(code);
      expect(read(text, resolveLimits({ maxStreams: 3 })).code).toBe('none');
      expect(read(text, { ...DEFAULT_LIMITS, ...limits, maxMessageSize: 2 ** 24 }).code).toBe(
        Object.entries(limits).some(([name, value]) => DEFAULT_LIMITS[name as 'maxStreams'] !== value)
          ? code
          : 'none',
      );
    }
  });
});

describe('assertPairedEscapes', () => {
  it('refuses exactly the escapes that leave a string without UTF-8 form', () => {
    const piece = fc.constantFrom(
      '\\ud800',
      '\\uDBff',
      '\\udc00',
      '\\uDFFF',
      '\\\\',
      '\\n',
      '\\u0041',
      'x',
      'ud800',
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 6 }), (pieces) => {
        const json = `["${pieces.join('')}"]`;
        const [value] = JSON.parse(json) as [string];
        const wellFormed = !/\p{Surrogate}/u.test(value);
        expect(errorCode(() => assertPairedEscapes(json))).toBe(wellFormed ? 'none' : 'lone_surrogate');
      }),
      { numRuns: 2000 },
    );
  });
});

function mutated(texts: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return fc
    .tuple(texts, fc.nat(), fc.constantFrom('', ',', '"', ']', '}', '\\', '\u0000', '1', 'e'), fc.nat(2))
    .map(([text, at, insert, cut]) => {
      const place = at % (text.length + 1);
      return text.slice(0, place) + insert + text.slice(place + cut);
    });
}
