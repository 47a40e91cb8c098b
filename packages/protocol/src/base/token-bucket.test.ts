import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TokenBucket } from './token-bucket.js';

const perMinute = (amount: number, now = 0) => new TokenBucket(amount, amount / 60_000, now);

describe('a token bucket', () => {
  it('gives its full level at once, then one more each time one has flowed in', () => {
    const bucket = perMinute(60);
    for (let i = 0; i < 60; i++) expect(bucket.take(1, 0)).toBe(true);
    expect(bucket.take(1, 0)).toBe(false);
    expect(bucket.readyAt(1, 0)).toBe(1_000);
    expect(bucket.take(1, 999)).toBe(false);
    expect(bucket.take(1, 1_000)).toBe(true);
    expect(bucket.take(1, 1_000)).toBe(false);
  });

  it('never holds more than its capacity, however long it was unused', () => {
    const bucket = perMinute(10);
    expect(bucket.level(1e12)).toBe(10);
    for (let i = 0; i < 10; i++) expect(bucket.take(1, 1e12)).toBe(true);
    expect(bucket.take(1, 1e12)).toBe(false);
  });

  it('goes into debt with spend(), and comes out of it with time', () => {
    const bucket = perMinute(60);
    expect(bucket.spend(70, 0)).toBe(-10);
    expect(bucket.readyAt(0, 0)).toBe(10_000);
    expect(bucket.level(4_000)).toBe(-6);
    expect(bucket.level(10_000)).toBe(0);
  });

  it('is full at its first clock reading, and lets nothing flow in while the clock goes back', () => {
    const bucket = perMinute(60, 5_000_000);
    expect(bucket.spend(30, 5_000_000)).toBe(30);
    expect(bucket.level(4_000_000)).toBe(30);
    expect(bucket.level(5_001_000)).toBe(31);
  });

  it('lets no more through in any period than its capacity plus the inflow', () => {
    const step = fc.record({ wait: fc.nat({ max: 5_000 }), amount: fc.integer({ min: 1, max: 5 }) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const bucket = new TokenBucket(20, 3 / 1_000, 0);
        let now = 0;
        const taken: { at: number; amount: number }[] = [];
        for (const { wait, amount } of steps) {
          now += wait;
          if (bucket.take(amount, now)) taken.push({ at: now, amount });
        }
        for (const [i, { at }] of taken.entries()) {
          let sum = 0;
          for (const later of taken.slice(i)) {
            sum += later.amount;
            expect(sum).toBeLessThanOrEqual(20 + (later.at - at) * 0.003 + 1e-9);
          }
        }
      }),
    );
  });
});
