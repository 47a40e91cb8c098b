import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { platform } from '../../testing/this-platform.js';
import { Base, MAX_COMPRESSED, SEGMENT_SIZE } from './base.js';

beforeAll(() => platform.loadZstd());

const wordsOf = (length: number, seed = 1): Uint8Array => {
  let state = seed;
  return Uint8Array.from({ length }, (_, i) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return i % 6 === 5 ? 0x20 : 0x61 + ((state >>> 16) % 8);
  });
};
const noiseOf = (length: number): Uint8Array => {
  let state = 7;
  return Uint8Array.from({ length }, () => {
    state = Math.imul(state ^ (state >>> 13), 0x5bd1e995) + 1;
    return state >>> 24;
  });
};
const packed = (content: Uint8Array, forerunner?: { base: Base; prefix: number }): Base => {
  const base = new Base(content);
  base.pack(forerunner);
  return base;
};
/** The packed bytes that remain after the garbage collector has taken the restored ones. */
const restoredOf = (base: Base): Uint8Array => {
  const original = globalThis.WeakRef;
  const gone = class {
    deref(): undefined {}
  };
  try {
    Object.assign(globalThis, { WeakRef: gone });
    const copy = packed(base.content, { base, prefix: base.length });
    return copy.content;
  } finally {
    Object.assign(globalThis, { WeakRef: original });
  }
};

describe('a packed message', () => {
  it.each([0, 1, SEGMENT_SIZE - 1, SEGMENT_SIZE, SEGMENT_SIZE + 1, 3 * SEGMENT_SIZE, 3 * SEGMENT_SIZE + 5])(
    'has the same %i bytes again',
    (length) => {
      for (const content of [wordsOf(length), noiseOf(length), new Uint8Array(length)]) {
        const base = packed(content);
        expect([base.isPacked, base.length]).toEqual([true, length]);
        expect(Buffer.from(restoredOf(base)).equals(content)).toBe(true);
      }
    },
  );

  it('takes less memory, and never more', () => {
    const text = wordsOf(5 * SEGMENT_SIZE);
    const base = new Base(text);
    expect([base.isPacked, base.packedBytes]).toEqual([false, 0]);
    base.pack();
    expect(base.packedBytes).toBeGreaterThan(0);
    expect(base.packedBytes).toBeLessThan(text.length / 2);
    expect(packed(noiseOf(2 * SEGMENT_SIZE + 9)).packedBytes).toBe(2 * SEGMENT_SIZE + 9);
  });

  it('shares the whole segments of what it and its forerunner begin with', () => {
    const former = packed(wordsOf(3 * SEGMENT_SIZE + 100));
    const segmentsOf = (base: Base) => base.segmentsOf(base.length);
    expect(segmentsOf(former)).toHaveLength(3);
    const longer = new Uint8Array(5 * SEGMENT_SIZE);
    longer.set(former.content);
    const next = packed(longer, { base: former, prefix: former.length });
    expect(segmentsOf(next).map((segment, i) => segment === segmentsOf(former)[i])).toEqual([
      true,
      true,
      true,
      false,
      false,
    ]);
    const edited = packed(longer, { base: former, prefix: 2 * SEGMENT_SIZE - 1 });
    expect(segmentsOf(edited).map((segment, i) => segment === segmentsOf(former)[i])).toEqual([
      true,
      false,
      false,
      false,
      false,
    ]);
    const unpacked = new Base(former.content);
    expect(segmentsOf(packed(longer, { base: unpacked, prefix: former.length }))).not.toContain(
      segmentsOf(former)[0],
    );
  });

  it('costs the work of a few segments, however much of it is new', () => {
    const length = MAX_COMPRESSED + 1;
    const { packedBytes } = packed(wordsOf(length * SEGMENT_SIZE));
    const compressed = packed(wordsOf(MAX_COMPRESSED * SEGMENT_SIZE)).packedBytes;
    expect(compressed).toBeLessThan((MAX_COMPRESSED * SEGMENT_SIZE) / 2);
    expect(packedBytes).toBe(compressed + SEGMENT_SIZE);
  });

  it('is packed once', () => {
    const base = packed(wordsOf(SEGMENT_SIZE * 2));
    const before = base.segmentsOf(base.length);
    base.pack();
    expect(base.segmentsOf(base.length)).toEqual(before);
  });

  it('is what it was, through any edits', () => {
    const edit = fc.record({
      at: fc.nat(4 * SEGMENT_SIZE),
      insert: fc.nat(2 * SEGMENT_SIZE),
      seed: fc.nat(),
    });
    fc.assert(
      fc.property(fc.array(edit, { maxLength: 6 }), (edits) => {
        let base = packed(wordsOf(2 * SEGMENT_SIZE));
        for (const { at, insert, seed } of edits) {
          const prefix = Math.min(at, base.length);
          const content = new Uint8Array(prefix + insert);
          content.set(base.content.subarray(0, prefix));
          content.set(wordsOf(insert, seed), prefix);
          base = packed(content, { base, prefix });
          expect(Buffer.from(restoredOf(base)).equals(content)).toBe(true);
        }
      }),
      { numRuns: 20 },
    );
  });
});
