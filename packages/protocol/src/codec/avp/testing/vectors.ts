import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fromHex } from '../../../base/testing/bytes.js';

/** Reads the golden vectors and creates the data of their recipes. */

export interface Bytes {
  readonly length: number;
  readonly sha256: string;
  readonly hex?: string;
  readonly b64?: string;
  readonly recipe?: Recipe;
}

export interface Recipe {
  readonly kind: string;
  readonly count: number;
  readonly seed?: number;
  readonly value?: number;
}

export function readVectors<T>(name: string): T {
  const url = new URL(`../../../../../../conformance/vectors/${name}`, import.meta.url);
  return JSON.parse(readFileSync(url, 'utf8')) as T;
}

export function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** The bytes of a vector; `undefined` if it only gives their hash. */
export function bytesOf(given: Bytes): Uint8Array | undefined {
  if (given.hex !== undefined) return fromHex(given.hex);
  if (given.b64 !== undefined) return new Uint8Array(Buffer.from(given.b64, 'base64'));
  return given.recipe && makeRecipe(given.recipe);
}

/** Bytes from one of the recipes that the heads of the vector files describe. */
export function makeRecipe(recipe: Recipe): Uint8Array {
  if (recipe.kind === 'const_u8') return new Uint8Array(recipe.count).fill(recipe.value ?? 0);
  const make = RECIPES[recipe.kind];
  if (make === undefined) throw new Error(`unknown recipe ${recipe.kind}`);
  const bytes = new Uint8Array(recipe.count * make.size);
  const view = new DataView(bytes.buffer);
  let x = recipe.seed ?? 0;
  for (let i = 0; i < recipe.count; i++) {
    x = (Math.imul(x, 1664525) + 1013904223) >>> 0;
    make.write(view, i * make.size, x);
  }
  return bytes;
}

interface ElementRecipe {
  readonly size: number;
  write(view: DataView, at: number, x: number): void;
}

const BYTE: ElementRecipe = { size: 1, write: (view, at, x) => view.setUint8(at, x >>> 24) };

const RECIPES: Readonly<Record<string, ElementRecipe>> = {
  lcg_u8: BYTE,
  lcg_i8: BYTE,
  sparse_u8: {
    size: 1,
    write: (view, at, x) => view.setUint8(at, (x >>> 20) % 16 === 0 ? x >>> 24 : 0),
  },
  lcg_f32: { size: 4, write: (view, at, x) => view.setFloat32(at, (x >>> 8) / 2 ** 23 - 1, true) },
  lcg_f16: { size: 2, write: (view, at, x) => view.setUint16(at, halfOf((x >>> 21) / 2 ** 10 - 1), true) },
  lcg_bf16: {
    size: 2,
    write: (view, at, x) => {
      const single = new Uint32Array(Float32Array.of((x >>> 24) / 2 ** 7 - 1).buffer)[0] ?? 0;
      view.setUint16(at, single >>> 16, true);
    },
  },
};

/** The bits of a float16 in (-2, 2), computed independently of the code under test. */
function halfOf(value: number): number {
  const sign = value < 0 ? 0x8000 : 0;
  const magnitude = Math.abs(value);
  if (magnitude === 0) return sign;
  const exponent = Math.floor(Math.log2(magnitude));
  return sign | ((exponent + 15) << 10) | ((magnitude / 2 ** exponent - 1) * 1024);
}
