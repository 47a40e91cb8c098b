import { beforeAll, describe, expect, it } from 'vitest';
import { equalBytes } from '../../base/bytes.js';
import { createProse, seeded } from '../../testing/prose.js';
import { censusOf, EVERYTHING } from '../../testing/zstd-census.js';
import { GOLDEN, HANDMADE, type KnownFrame } from '../../testing/zstd-frames.js';
import type { ZstdEngine } from '../zstd.js';
import { loadPlainEngine } from './plain.js';
import { loadWasmEngine } from './wasm.js';

let plain: ZstdEngine;
let wasm: ZstdEngine;

beforeAll(async () => {
  [plain, wasm] = await Promise.all([loadPlainEngine(), loadWasmEngine()]);
});

describe('frames of zstd', () => {
  it.each([...HANDMADE, ...GOLDEN])('are decoded: $name', ({ frame, content }) => {
    for (const engine of [wasm, plain]) {
      expect(equalBytes(engine.decompress(frame, content.length, undefined), content)).toBe(true);
    }
  });

  it('use all of the format, together with what the WebAssembly build writes', () => {
    const frames: KnownFrame[] = [...HANDMADE, ...GOLDEN, ...written()];
    for (const { frame, content } of frames) {
      expect(equalBytes(plain.decompress(frame, content.length, undefined), content)).toBe(true);
    }
    const found = new Set(frames.flatMap(({ frame }) => [...censusOf(frame)]));
    expect([...EVERYTHING].filter((name) => !found.has(name))).toEqual([]);
    expect([...found].filter((name) => !EVERYTHING.has(name))).toEqual([]);
  });

  /** Large blocks of literals, with their own tables and with the last one. */
  function written(): KnownFrame[] {
    const random = seeded(7);
    const bytes = (length: number, values: number) =>
      Uint8Array.from({ length }, () => Math.floor(random() ** 2 * values));
    const inputs: [string, number, Uint8Array][] = [
      ['skewed bytes', 1, bytes(300_000, 200)],
      ['skewed bytes', 19, bytes(300_000, 200)],
      ['six values', 1, bytes(3000, 6)],
      ['prose', 1, new TextEncoder().encode(createProse(7)(50_000))],
    ];
    return inputs.map(([name, level, content]) => ({
      name,
      content,
      frame: wasm.compress(content, level, undefined),
    }));
  }
});
