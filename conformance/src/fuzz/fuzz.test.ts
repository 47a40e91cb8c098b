import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { AliasReader, Policy } from '../subject.js';
import { createProfiler } from './coverage.js';
import { converse } from './dialogue.js';
import { createFigures } from './figures.js';
import { createFuzzer } from './fuzzer.js';
import { leakOf, MAX_LEAK } from './leak.js';
import { mutate } from './mutate.js';
import { createRandom } from './random.js';
import { converseAtRelay } from './relay-dialogue.js';
import { readFinds } from './seeds.js';
import { createMemory, progressIn } from './shared.js';
import type { Target } from './target.js';
import { prepareTargets, TARGETS } from './targets.js';

describe('the committed corpus', () => {
  const finds = readFinds();

  it.each(TARGETS.map((target) => [target.name, target] as const))('%s', async (name, target) => {
    await prepareTargets();
    const inputs = (finds.get(name) ?? []).map((hex) => new Uint8Array(Buffer.from(hex, 'hex')));
    expect(target.seeds.length).toBeGreaterThan(0);
    for (const input of [...target.seeds, ...inputs]) {
      if (target.run(input)) target.recheck();
    }
  });

  it('belongs to existing targets', () => {
    expect([...finds.keys()].filter((name) => !TARGETS.some((target) => target.name === name))).toEqual([]);
  });
});

/** A fault behind a header that no single mutation creates from nothing. */
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
  it('gets through conditions one after another', () => {
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

  it('makes the same inputs from the same seed, and keeps them short', () => {
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

  it('shows another thread which input is running', () => {
    const memory = createMemory();
    const [writer, reader] = [progressIn(memory), progressIn(memory)];
    expect(reader.look()).toEqual({ count: 0, running: undefined });
    writer.begin(3, Uint8Array.of(9, 8, 7));
    expect(reader.look()).toEqual({ count: 1, running: { target: 3, input: Uint8Array.of(9, 8, 7) } });
    writer.end();
    expect(reader.look()).toEqual({ count: 1, running: undefined });
  });
});

describe('a dialogue', () => {
  beforeAll(prepareTargets);
  afterEach(() => vi.restoreAllMocks());

  /** Runs sessions until one of them fails. */
  function search(run: (input: Uint8Array) => unknown): void {
    for (let i = 0; i < 60; i++) run(Uint8Array.of(i, 3 * i, 5 * i));
  }
  const planted = () => {
    throw new TypeError('planted');
  };

  it('gets far, and covers every kind of link frame', () => {
    const figures = createFigures();
    for (let i = 0; i < 40; i++) converse(Uint8Array.of(i), figures);
    expect(figures.bodies / figures.sessions).toBeGreaterThan(80);
    const all = figures.frames.reduce((sum, count) => sum + count, 0);
    for (const count of figures.frames) expect(count / all).toBeGreaterThan(0.01);
  });

  it('is the same for the same input', () => {
    const of = (input: Uint8Array) => {
      const figures = createFigures();
      converse(input, figures);
      return figures;
    };
    expect(of(Uint8Array.of(4, 2))).toEqual(of(Uint8Array.of(4, 2)));
    expect(of(Uint8Array.of(4, 2))).not.toEqual(of(Uint8Array.of(4, 3)));
  });

  it('finds an internal error that a session contains', () => {
    vi.spyOn(AliasReader.prototype, 'nameOf').mockImplementation(planted);
    expect(() => search((input) => converse(input, createFigures()))).toThrow(
      'an internal error ended a session',
    );
  });

  it('finds an error that ends a session although both ends follow the protocol', () => {
    const { handleAlias } = AliasReader.prototype;
    vi.spyOn(AliasReader.prototype, 'handleAlias').mockImplementation(function (
      this: AliasReader,
      alias,
      name,
    ) {
      handleAlias.call(this, (alias + 1) % 256, name);
    });
    expect(() => search((input) => converse(input, createFigures()))).toThrow(
      'both ends follow the protocol',
    );
  });

  it('finds an internal error that a relay contains', () => {
    vi.spyOn(Policy.prototype, 'maySend').mockImplementation(planted);
    expect(() => search((input) => converseAtRelay(input, createFigures()))).toThrow(
      'contained an internal error',
    );
  });

  it('finds memory that every run leaves behind', async () => {
    const collect = async () => (globalThis as { gc?: () => void }).gc?.();
    const kept: Uint8Array[] = [];
    const run = () => void kept.push(new Uint8Array(64 * 1024).fill(1));
    expect(await leakOf(run, createRandom(1), collect)).toBeGreaterThan(MAX_LEAK);
  });
});
