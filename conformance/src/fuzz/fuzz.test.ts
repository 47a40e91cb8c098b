import { describe, expect, it } from 'vitest';
import { createProfiler } from './coverage.js';
import { createFuzzer } from './fuzzer.js';
import { mutate } from './mutate.js';
import { createRandom } from './random.js';
import { readFinds } from './seeds.js';
import { createMemory, progressIn } from './shared.js';
import type { Target } from './target.js';
import { prepareTargets, TARGETS } from './targets.js';

describe('the committed corpus', () => {
  const finds = readFinds();

  it.each(TARGETS.map((target) => [target.name, target] as const))(
    '%s',
    { timeout: 60_000 },
    async (name, target) => {
      await prepareTargets();
      const inputs = (finds.get(name) ?? []).map((hex) => new Uint8Array(Buffer.from(hex, 'hex')));
      expect(target.seeds.length).toBeGreaterThan(0);
      for (const input of [...target.seeds, ...inputs]) {
        if (target.run(input)) target.recheck();
      }
    },
  );

  it('belongs to targets that there are', () => {
    expect([...finds.keys()].filter((name) => !TARGETS.some((target) => target.name === name))).toEqual([]);
  });
});

/** Faults only behind a header that no single mutation makes from nothing. */
function planted(input: Uint8Array): boolean {
  if (input.length < 8) return true;
  if (input[0] !== 0x41) return true;
  if (input[1] !== 0x56) return true;
  if (input[2] !== 0x01) return true;
  const length = (input[4] as number) | ((input[5] as number) << 8);
  if (length !== input.length) return true;
  throw new TypeError('planted');
}

describe('the fuzzer', () => {
  it('finds its way through conditions one after another', { timeout: 120_000 }, () => {
    const target: Target = {
      name: 'planted',
      tokens: [],
      seeds: [new Uint8Array(8)],
      run: planted,
      recheck: () => {},
    };
    const fuzzer = createFuzzer({
      target,
      random: createRandom(1),
      profiler: createProfiler((url) => url.includes('fuzz.test')),
      execute: (one, input) => one.run(input),
      observe: () => {},
    });
    expect(() => fuzzer.run(100_000)).toThrow('planted');
    expect(fuzzer.corpus.length).toBeGreaterThan(4);
  });

  it('makes the same inputs from the same seed, none of them too long', () => {
    const inputs = (seed: number) => {
      const random = createRandom(seed);
      const options = { tokens: [Uint8Array.of(1, 2, 3)], other: new Uint8Array(40), maxLength: 64 };
      return Array.from({ length: 2000 }, (_, i) => mutate(new Uint8Array(i % 50), random, options));
    };
    expect(inputs(7)).toEqual(inputs(7));
    expect(inputs(7)).not.toEqual(inputs(8));
    expect(Math.max(...inputs(7).map(({ length }) => length))).toBeLessThanOrEqual(64);
    expect(new Set(inputs(7).map((input) => Buffer.from(input).toString('hex'))).size).toBeGreaterThan(1500);
  });

  it('shows another thread what it is running', () => {
    const memory = createMemory();
    const [writer, reader] = [progressIn(memory), progressIn(memory)];
    expect(reader.look()).toEqual({ count: 0, running: undefined });
    writer.begin(3, Uint8Array.of(9, 8, 7));
    expect(reader.look()).toEqual({ count: 1, running: { target: 3, input: Uint8Array.of(9, 8, 7) } });
    writer.end();
    expect(reader.look()).toEqual({ count: 1, running: undefined });
  });
});
