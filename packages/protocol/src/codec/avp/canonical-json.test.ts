import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isProtocolError } from '../../base/errors.js';
import { canonicalJson, compareCodePoints, pythonFloat } from './canonical-json.js';
import { type LosslessJson, parseLosslessJson } from './lossless-json.js';

const canonical = (text: string): string => {
  try {
    return canonicalJson(parseLosslessJson(text));
  } catch (error) {
    if (isProtocolError(error)) return error.code;
    throw error;
  }
};

describe('numbers', () => {
  // The right-hand sides are the output of Python 3.11.
  it.each([
    ['0', '0'],
    ['-0', '0'],
    ['-0.0', '-0.0'],
    ['0e5', '0.0'],
    ['1e5', '100000.0'],
    ['1E-5', '1e-05'],
    ['0.0001', '0.0001'],
    ['0.00001', '1e-05'],
    ['0.00012345', '0.00012345'],
    ['9999999999999998.0', '9999999999999998.0'],
    ['1e16', '1e+16'],
    ['12345678901234567890.0', '1.2345678901234567e+19'],
    ['1e22', '1e+22'],
    ['1e400', 'Infinity'],
    ['-1e400', '-Infinity'],
    ['1e-400', '0.0'],
    ['5e-324', '5e-324'],
    ['1.7976931348623157e308', '1.7976931348623157e+308'],
    ['0.1', '0.1'],
    ['0.30000000000000004', '0.30000000000000004'],
    ['123456789012345678901234567890', '123456789012345678901234567890'],
    ['-9007199254740993', '-9007199254740993'],
    ['NaN', 'NaN'],
  ])('%s is written as %s', (text, expected) => expect(canonical(text)).toBe(expected));

  it('are read back from their canonical form unchanged', () => {
    fc.assert(
      fc.property(fc.double(), (value) => {
        const read = parseLosslessJson(pythonFloat(value));
        expect(read).toBeTypeOf('number');
        expect(Object.is(read, value)).toBe(true);
      }),
    );
  });
});

describe('text', () => {
  it('is sorted and escaped as by Python', () => {
    expect(canonical('{"\u{1f600}":1,"\uff5e":2,"z":[],"a":{"c":null,"b":true}}')).toBe(
      '{"a":{"b":true,"c":null},"z":[],"\\uff5e":2,"\\ud83d\\ude00":1}',
    );
    expect(canonical('"\\u0041\\/\\b\\f\\n\\r\\t\\"\\\\\\u001F\x7f\\ud83d\\ude00\\ud800"')).toBe(
      '"A/\\b\\f\\n\\r\\t\\"\\\\\\u001f\\u007f\\ud83d\\ude00\\ud800"',
    );
  });

  it('keeps the last of repeated keys, even of dangerous ones', () => {
    expect(canonical('{"a":1,"a":2,"__proto__":{"x":1},"__proto__":3}')).toBe('{"__proto__":3,"a":2}');
  });

  it('is refused if Python refuses it', () => {
    const refused = [
      ...['', ' ', '{', '[', '"', '[1,]', '{"a":1,}', '{a:1}', "{'a':1}", '[1 2]', '1 2', '{"a" 1}', '{,}'],
      ...[
        '01',
        '+1',
        '.5',
        '1.',
        '1e',
        '--1',
        '-',
        '0x1',
        'nan',
        'True',
        '-NaN',
        'nul',
        '\ufeff1',
        '\u00a01',
      ],
      ...['"\\x"', '"\\u12g4"', '"\\u+123"', '"\n"', '"\u0000"', '"\\', '"\\u', '/**/1', '1'.repeat(4301)],
    ];
    for (const text of refused) expect([text, canonical(text)]).toEqual([text, 'bad_json']);
    expect(canonical('1'.repeat(4300))).toHaveLength(4300);
    expect(canonical(' \t\r\n1 ')).toBe('1');
  });

  it('is refused if it is one level too deep', () => {
    expect(canonical(`${'['.repeat(256)}${']'.repeat(256)}`)).toHaveLength(512);
    expect(canonical(`${'['.repeat(257)}1${']'.repeat(257)}`)).toBe('json_too_deep');
    expect(canonical('['.repeat(1e6))).toBe('json_too_deep');
    expect(canonical('{"a":'.repeat(1e5))).toBe('json_too_deep');
  });

  it('reads back equal from its canonical form', () => {
    const { value } = fc.letrec<{ value: LosslessJson }>((tie) => ({
      value: fc.oneof(
        { maxDepth: 3 },
        fc.constant(null),
        fc.boolean(),
        fc.string({ unit: 'binary' }),
        fc.bigInt(),
        fc.double(),
        fc.array(tie('value')),
        fc.array(fc.tuple(fc.string({ unit: 'binary' }), tie('value'))).map((pairs) => new Map(pairs)),
      ),
    }));
    fc.assert(
      fc.property(value, (tree) => {
        const text = canonicalJson(tree);
        expect(text).toMatch(/^[ -~]*$/);
        expect(canonical(text)).toBe(text);
        expect(parseLosslessJson(text)).toEqual(tree);
      }),
    );
  });
});

describe('compareCodePoints', () => {
  it('orders like arrays of code points, including lone surrogates', () => {
    const unit = fc.constantFrom(
      'a',
      'b',
      '\ud83d',
      '\ude00',
      '\ud83d\ude00',
      '\ue000',
      '\uffff',
      '\ud7ff',
      '',
    );
    const text = fc.array(unit, { maxLength: 5 }).map((units) => units.join(''));
    fc.assert(
      fc.property(text, text, (a, b) => {
        const [x, y] = [[...a].map((c) => c.codePointAt(0)!), [...b].map((c) => c.codePointAt(0)!)];
        const at = x.findIndex((point, i) => point !== y[i]);
        const expected = at < 0 ? x.length - y.length : x[at]! - (y[at] ?? -1);
        expect(Math.sign(compareCodePoints(a, b))).toBe(Math.sign(expected));
      }),
      { numRuns: 2000 },
    );
  });
});
