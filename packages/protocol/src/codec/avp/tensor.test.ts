import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { errorCode } from '../../testing/error-code.js';
import { bfloat16ToFloat32, float16ToFloat32, float32ToBfloat16, float32ToFloat16 } from './float16.js';
import { createTensor, type Dtype, tensorByteLength, toTypedArray, toUint16Array } from './tensor.js';

const ALL_PATTERNS = Uint16Array.from({ length: 65_536 }, (_, i) => i);

const floatOf = (bits: number): number => new Float32Array(Uint32Array.of(bits).buffer)[0] as number;
const bitsOf = (value: number): number => new Uint32Array(Float32Array.of(value).buffer)[0] as number;

/** A float16 by the formula of IEEE 754, in doubles. */
function halfValue(pattern: number): number {
  const sign = pattern >> 15 ? -1 : 1;
  const exponent = (pattern >> 10) & 31;
  const fraction = pattern & 1023;
  if (exponent === 31) return fraction ? Number.NaN : sign * Infinity;
  return sign * (exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : (fraction / 1024) * 2 ** -14);
}

/** The finite values of one sign, ascending, followed by infinity. */
const HALVES = Array.from({ length: 0x7c01 }, (_, pattern) => halfValue(pattern));

/** The nearest float16 of a non-negative finite value by search, ties to the even pattern. */
function nearestHalf(value: number): number {
  // 65520 lies half-way between the largest value and 2^16, which would be the next one.
  if (value >= 65_520) return 0x7c00;
  let low = 0;
  let high = 0x7bff;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if ((HALVES[middle] as number) <= value) low = middle;
    else high = middle;
  }
  const below = value - (HALVES[low] as number);
  const above = (HALVES[high] as number) - value;
  if (below === above) return low % 2 === 0 ? low : high;
  return below < above ? low : high;
}

describe('float16', () => {
  it('widens every pattern exactly, and narrows it back to itself', () => {
    const wide = float16ToFloat32(ALL_PATTERNS);
    const wrong = ALL_PATTERNS.filter((pattern) => !Object.is(wide[pattern], halfValue(pattern)));
    expect([...wrong]).toEqual([]);
    expect(float32ToFloat16(wide)).toEqual(ALL_PATTERNS);
  });

  it('keeps sign and payload of every NaN', () => {
    const bits = new Uint32Array(float16ToFloat32(ALL_PATTERNS).buffer);
    for (const pattern of ALL_PATTERNS.filter((p) => (p & 0x7c00) === 0x7c00 && (p & 0x3ff) !== 0)) {
      expect(bits[pattern]).toBe((((pattern & 0x8000) << 16) | 0x7f800000 | ((pattern & 0x3ff) << 13)) >>> 0);
    }
    // A NaN with only low bits in its payload stays a NaN.
    const low = new Float32Array(Uint32Array.of(0x7f800001, 0xff801fff).buffer);
    expect([...float32ToFloat16(low)]).toEqual([0x7e00, 0xfe00]);
  });

  it('rounds to the nearest, ties to even, at and next to every tie', () => {
    const values: number[] = [];
    for (let pattern = 0; pattern < 0x7c00; pattern++) {
      const value = HALVES[pattern] as number;
      const next = pattern === 0x7bff ? 65_536 : (HALVES[pattern + 1] as number);
      const tie = bitsOf((value + next) / 2);
      values.push(floatOf(tie - 1), floatOf(tie), floatOf(tie + 1));
    }
    const narrow = float32ToFloat16(Float32Array.from(values));
    const wrong = values.filter((value, i) => narrow[i] !== nearestHalf(value));
    expect(wrong).toEqual([]);
    const negative = float32ToFloat16(Float32Array.from(values, (value) => -value));
    expect(negative).toEqual(narrow.map((pattern) => pattern | 0x8000));
  });

  it('rounds any float to the nearest', () => {
    fc.assert(
      fc.property(fc.float({ noNaN: true }), (value) => {
        const expected =
          nearestHalf(Math.abs(value)) | (Object.is(Math.sign(value), -0) || value < 0 ? 0x8000 : 0);
        expect(float32ToFloat16(Float32Array.of(value))[0]).toBe(expected);
      }),
      { numRuns: 2000 },
    );
  });
});

describe('bfloat16', () => {
  it('widens every pattern exactly, and narrows it back to itself', () => {
    const wide = bfloat16ToFloat32(ALL_PATTERNS);
    expect(new Uint32Array(wide.buffer)).toEqual(Uint32Array.from(ALL_PATTERNS, (pattern) => pattern << 16));
    expect(float32ToBfloat16(wide)).toEqual(ALL_PATTERNS);
  });

  it('rounds to the nearest, ties to even, at and next to every tie', () => {
    const bits: number[] = [];
    const expected: number[] = [];
    for (let pattern = 0; pattern < 0x7f80; pattern++) {
      const tie = (pattern << 16) | 0x8000;
      bits.push(tie - 1, tie, tie + 1);
      expected.push(pattern, pattern + (pattern & 1), pattern + 1);
    }
    const values = new Float32Array(Uint32Array.from(bits).buffer);
    expect(float32ToBfloat16(values)).toEqual(Uint16Array.from(expected));
    const negative = new Float32Array(Uint32Array.from(bits, (pattern) => pattern | 0x80000000).buffer);
    expect(float32ToBfloat16(negative)).toEqual(Uint16Array.from(expected, (pattern) => pattern | 0x8000));
  });

  it('keeps a NaN a NaN', () => {
    const nans = new Float32Array(Uint32Array.of(0x7f800001, 0xffffffff, 0x7fc12345).buffer);
    expect([...float32ToBfloat16(nans)]).toEqual([0x7fc0, 0xffff, 0x7fc1]);
  });
});

describe('toTypedArray', () => {
  const memory = new Uint8Array(64);
  memory.set([0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0], 8);

  it('returns a view of aligned memory and a copy otherwise', () => {
    const aligned = toTypedArray(memory.subarray(8, 16), 'float32');
    expect([...aligned]).toEqual([1, -2]);
    expect(aligned.buffer).toBe(memory.buffer);
    const shifted = memory.slice();
    shifted.copyWithin(9, 8, 16);
    for (const bytes of [shifted.subarray(9, 17), Buffer.from(shifted.buffer).subarray(9, 17)]) {
      const copied = toTypedArray(bytes, 'float32');
      expect([...copied]).toEqual([1, -2]);
      expect(copied.buffer).not.toBe(shifted.buffer);
    }
    expect(toUint16Array(memory.subarray(8, 16)).buffer).toBe(memory.buffer);
    expect([...toUint16Array(memory.subarray(9, 11))]).toEqual([0x8000]);
    expect(toTypedArray(memory.subarray(11, 16), 'int8')).toEqual(Int8Array.of(63, 0, 0, 0, -64));
  });

  it('widens sixteen bits at any alignment', () => {
    for (const offset of [0, 1, 2, 3]) {
      const bytes = new Uint8Array(16);
      bytes.set([0x00, 0x3c, 0x01, 0x80], offset);
      expect([...toTypedArray(bytes.subarray(offset, offset + 4), 'float16')]).toEqual([1, -(2 ** -24)]);
      bytes.set([0x80, 0x3f, 0x00, 0xc0], offset);
      expect([...toTypedArray(bytes.subarray(offset, offset + 4), 'bfloat16')]).toEqual([1, -2]);
    }
  });

  it('refuses bytes that are not a whole number of elements', () => {
    for (const [dtype, length] of [
      ['float32', 6],
      ['float16', 3],
      ['bfloat16', 1],
    ] as [Dtype, number][]) {
      expect(errorCode(() => createTensor(new Uint8Array(length), [], dtype).toTyped())).toBe('bad_tensor');
    }
    expect(createTensor(new Uint8Array(0), [0], 'float16').toTyped()).toEqual(new Float32Array(0));
    expect(errorCode(() => toTypedArray(memory, 'float64' as Dtype))).toBe('invalid_argument');
  });
});

describe('tensorByteLength', () => {
  it('is exact or throws', () => {
    expect(tensorByteLength([], 'float32')).toBe(4);
    expect(tensorByteLength([3, 5, 7], 'bfloat16')).toBe(210);
    expect(tensorByteLength([0xffffffff, 0xffffffff, 0xffffffff, 0], 'float32')).toBe(0);
    expect(tensorByteLength([2 ** 26, 2 ** 24], 'float32')).toBe(2 ** 52);
    const shapes = [
      [2 ** 27, 2 ** 24],
      [65_536, 65_536, 65_536, 65_536],
      [-1],
      [1.5],
      [Number.NaN],
      [2 ** 32],
    ];
    for (const shape of [...shapes, ['4' as unknown as number], Array(65).fill(1)]) {
      expect([shape, errorCode(() => tensorByteLength(shape, 'float32'))]).toEqual([shape, 'bad_tensor']);
    }
    expect(tensorByteLength(Array(64).fill(1), 'int8')).toBe(1);
    expect(errorCode(() => tensorByteLength([1], 'constructor' as Dtype))).toBe('invalid_argument');
  });
});
