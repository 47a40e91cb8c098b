import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RecordStore } from './record-store.js';

/** A record whose bytes tell its number and length. */
const recordOf = (number: number, length: number) =>
  Uint8Array.from({ length }, (_, i) => (number * 31 + i * 7 + length) & 0xff);

/** Mostly parts of a few bytes, some at the steps of a varint, a few large ones. */
const lengths = fc.oneof(
  { weight: 20, arbitrary: fc.nat({ max: 12 }) },
  { weight: 3, arbitrary: fc.constantFrom(0, 127, 128, 129, 16_383, 16_384) },
  { weight: 1, arbitrary: fc.nat({ max: 100_000 }) },
);

describe('a record store', () => {
  it('gives back what an array would, from any part and in pieces of any size', () => {
    fc.assert(
      fc.property(
        fc.array(lengths, { maxLength: 150 }),
        fc.array(
          fc.record({
            after: fc.nat({ max: 160 }),
            bytes: fc.nat({ max: 70_000 }),
            most: fc.integer({ min: 1, max: 40 }),
          }),
        ),
        fc.boolean(),
        (sizes, reads, isTrimmed) => {
          const store = new RecordStore();
          const plain = sizes.map((size, i) => recordOf(i, size));
          for (const record of plain) store.append(record);
          if (isTrimmed) store.trim();
          expect(store.size).toBe(plain.length);
          for (const { after, bytes, most } of reads) {
            const got = store.read(after, bytes, most);
            expect(got).toEqual(plain.slice(after, after + got.length));
            expect(got.length).toBeLessThanOrEqual(most);
            // At least one, and no more than asked for; each is stored after its length.
            const stored = (record: Uint8Array) =>
              record.length + (record.length < 128 ? 1 : record.length < 16_384 ? 2 : 3);
            const used = got.reduce((sum, record) => sum + stored(record), 0);
            if (after < plain.length) expect(got.length).toBeGreaterThan(0);
            if (got.length > 1) expect(used).toBeLessThanOrEqual(bytes);
            const next = plain[after + got.length];
            if (next !== undefined && got.length < most && got.length > 0) {
              expect(used + stored(next)).toBeGreaterThan(bytes);
            }
          }
        },
      ),
      { numRuns: 60 },
    );
  });

  it('states the memory that it takes before it takes it, and gives back the same when it is trimmed', () => {
    fc.assert(
      fc.property(fc.array(lengths, { minLength: 1, maxLength: 150 }), (sizes) => {
        const store = new RecordStore();
        let memory = 0;
        let content = 0;
        for (const [i, size] of sizes.entries()) {
          memory += store.growthFor(size);
          store.append(recordOf(i, size));
          content += size + 1;
          expect(memory).toBeGreaterThanOrEqual(content);
        }
        expect(store.growthFor(0)).toBeGreaterThanOrEqual(0);
        memory -= store.trim();
        expect(memory).toBeGreaterThanOrEqual(content);
        // Only lengths and the index are left beside the content.
        expect(memory).toBeLessThanOrEqual(content + sizes.length * 3 + Math.ceil(sizes.length / 32) * 16);
        expect(store.trim()).toBe(0);
      }),
      { numRuns: 60 },
    );
  });

  it('takes seven bytes for a token, and one entry of the index for each 32', () => {
    const store = new RecordStore();
    let memory = 0;
    for (let i = 0; i < 3200; i++) {
      memory += store.growthFor(6);
      store.append(recordOf(i, 6));
    }
    expect(memory - store.trim()).toBe(3200 * 7 + 100 * 16);
    for (const after of [0, 31, 32, 33, 3199]) expect(store.read(after, 1, 1)).toEqual([recordOf(after, 6)]);
    expect(store.read(3200, 1, 1)).toEqual([]);
  });

  it('gives out copies, so that a slow reader keeps only what it has read', () => {
    const store = new RecordStore();
    store.append(recordOf(0, 10));
    store.append(recordOf(1, 60_000));
    const [first] = store.read(0, 1, 1);
    expect(first?.buffer.byteLength).toBe(10);
    first?.fill(0);
    expect(store.read(0, 1, 1)).toEqual([recordOf(0, 10)]);
  });
});
