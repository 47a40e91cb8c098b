import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Clock } from '../../platform/clock.js';
import { errorCode } from '../../testing/error-code.js';
import type { Part } from '../messages/part.js';
import { areTokens } from '../messages/part.js';
import { PartBatch } from './batch.js';
import { resolveBatchOptions } from './batch-options.js';

/** A clock whose timers fire when the test calls `fire`. */
function createTimers() {
  const timers = new Set<() => void>();
  const clock = {
    after(_ms: number, task: () => void) {
      timers.add(task);
      return () => timers.delete(task);
    },
  } as unknown as Clock;
  const fire = () => {
    const due = [...timers];
    timers.clear();
    for (const task of due) task();
  };
  return { clock, fire, timers };
}

const OPTIONS = { ms: 10, bytes: 6 };

describe('a batch', () => {
  it('is sent when its time has passed, or when it has enough bytes', async () => {
    const { clock, fire, timers } = createTimers();
    const sent: Part[] = [];
    const batch = new PartBatch(clock, async (part) => void sent.push(part));
    await batch.push('ab', OPTIONS);
    await batch.push('cd', OPTIONS);
    expect([sent, timers.size]).toEqual([[], 1]);
    fire();
    await batch.flush();
    expect(sent).toEqual(['abcd']);
    await batch.push('öö', OPTIONS);
    await batch.push('ö', OPTIONS);
    expect([sent.at(-1), timers.size]).toEqual(['ööö', 0]);
    await batch.push({ tokens: [0x7f, 0x80, 0x3fff] }, OPTIONS);
    expect(sent).toHaveLength(2);
    await batch.push({ tokens: Uint32Array.of(1) }, OPTIONS);
    expect(sent.at(-1)).toEqual({ tokens: [0x7f, 0x80, 0x3fff, 1] });
  });

  it('keeps the order of joined and single parts, whenever its timer fires', async () => {
    const part = fc.oneof(
      fc.string({ maxLength: 3 }),
      fc.string({ maxLength: 3 }).map((text) => ({ text })),
      fc.array(fc.nat(200_000), { maxLength: 3 }).map((tokens) => ({ tokens })),
      fc.uint8Array({ maxLength: 2 }),
      fc.constant('fire' as const),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(part, { maxLength: 30 }),
        fc.integer({ min: 1, max: 12 }),
        async (parts, bytes) => {
          const { clock, fire } = createTimers();
          const sent: Part[] = [];
          const batch = new PartBatch(clock, async (each) => {
            await Promise.resolve();
            sent.push(each);
          });
          for (const each of parts) {
            if (each === 'fire') fire();
            else await batch.push(each, { ms: 10, bytes });
          }
          await batch.flush();
          expect(spell(sent)).toEqual(spell(parts.filter((each) => each !== 'fire')));
        },
      ),
    );
  });

  it('takes a single part when it is pushed', async () => {
    const { clock } = createTimers();
    const sent: Part[] = [];
    const batch = new PartBatch(clock, async (each) => void sent.push(each));
    const [bytes, json] = [Uint8Array.of(1), { n: 1 }];
    const pushed = [batch.push(bytes, OPTIONS), batch.push(json, OPTIONS)];
    bytes[0] = 2;
    json.n = 2;
    await Promise.all(pushed);
    expect(sent).toEqual([Uint8Array.of(1), '{"n":1}']);
  });

  it('throws a failure to send from the next call', async () => {
    const { clock, fire } = createTimers();
    const batch = new PartBatch(clock, async () => {
      throw new Error('no');
    });
    await batch.push('a', OPTIONS);
    fire();
    await expect(batch.flush()).rejects.toThrow('no');
    await expect(batch.push('abcdefgh', OPTIONS)).rejects.toThrow('no');
  });
});

/** Lists characters, IDs and values one by one, so that the boundaries of batches do not matter. */
function spell(parts: readonly Part[]): unknown[] {
  return parts.flatMap((part): unknown[] => {
    if (typeof part === 'string') return [...part.split('')];
    if (typeof part !== 'object' || part === null) return [part];
    if ('text' in part && typeof part.text === 'string') return part.text.split('');
    return 'tokens' in part && areTokens(part.tokens) ? [...part.tokens] : [part];
  });
}

it('accepts only options within bounds', () => {
  expect(resolveBatchOptions(undefined)).toBeUndefined();
  expect(resolveBatchOptions({})).toEqual({ ms: 10, bytes: 4096 });
  expect(resolveBatchOptions({ ms: 0, bytes: 1 })).toEqual({ ms: 0, bytes: 1 });
  expect(resolveBatchOptions({ ms: 10_000 })).toEqual({ ms: 10_000, bytes: 4096 });
  for (const bad of [
    { ms: -1 },
    { ms: 10_001 },
    { ms: Number.NaN },
    { bytes: 0 },
    { bytes: 1.5 },
    { size: 1 },
  ]) {
    expect(errorCode(() => resolveBatchOptions(bad as object))).toBe('invalid_option');
  }
});
