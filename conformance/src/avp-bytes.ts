import { createHash } from 'node:crypto';
import { fail, same } from './expect.js';
import type { Fields } from './fields.js';

/** Bytes in the forms of the AVP files: hex, base64, or a recipe that generates them. */

export function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

export function toHex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}

/** The bytes of a vector; undefined if it gives only their length and hash. */
export function bytesOf(given: Fields): Uint8Array | undefined {
  const bytes = written(given);
  if (bytes !== undefined) sameDigest(bytes, given);
  return bytes;
}

/** Compares bytes to the length and hash of a vector. */
export function sameDigest(bytes: Uint8Array, given: Fields): void {
  same(bytes.length, given.number('length'), 'length');
  same(sha256(bytes), given.text('sha256'), 'SHA-256');
}

function written(given: Fields): Uint8Array | undefined {
  if (given.has('hex')) return given.hex('hex');
  if (given.has('b64')) return new Uint8Array(Buffer.from(given.text('b64'), 'base64'));
  return given.has('recipe') ? makeRecipe(given.object('recipe')) : undefined;
}

interface ElementRecipe {
  readonly size: number;
  write(view: DataView, at: number, x: number): void;
}

/** The recipes that the file headers describe: each makes an element from a state of the generator. */
const RECIPES: Readonly<Record<string, ElementRecipe>> = {
  lcg_u8: { size: 1, write: (view, at, x) => view.setUint8(at, x >>> 24) },
  lcg_i8: { size: 1, write: (view, at, x) => view.setUint8(at, x >>> 24) },
  sparse_u8: { size: 1, write: (view, at, x) => view.setUint8(at, (x >>> 20) % 16 === 0 ? x >>> 24 : 0) },
  lcg_f32: { size: 4, write: (view, at, x) => view.setFloat32(at, (x >>> 8) / 2 ** 23 - 1, true) },
  lcg_f16: { size: 2, write: (view, at, x) => view.setUint16(at, halfOf((x >>> 21) / 2 ** 10 - 1), true) },
  lcg_bf16: {
    size: 2,
    write: (view, at, x) => {
      view.setFloat32(at, (x >>> 24) / 2 ** 7 - 1, true);
      // The upper half of the float32 is the element; the next element overwrites the lower half.
      view.setUint16(at, view.getUint16(at + 2, true), true);
    },
  },
};

/** Generates the bytes of a recipe. */
export function makeRecipe(given: Fields): Uint8Array {
  const kind = given.text('kind');
  const count = given.number('count');
  if (kind === 'const_u8') return new Uint8Array(count).fill(given.number('value'));
  const recipe = RECIPES[kind];
  if (recipe === undefined) return fail(`the runner does not know the recipe ${kind}`);
  const bytes = new Uint8Array(count * recipe.size + 2);
  const view = new DataView(bytes.buffer);
  let x = given.number('seed');
  for (let i = 0; i < count; i++) {
    x = (Math.imul(x, 1664525) + 1013904223) >>> 0;
    recipe.write(view, i * recipe.size, x);
  }
  return bytes.slice(0, count * recipe.size);
}

/** The bits of a float16 in (-2, 2) that is exact without rounding. */
function halfOf(value: number): number {
  const sign = value < 0 ? 0x8000 : 0;
  const magnitude = Math.abs(value);
  if (magnitude === 0) return sign;
  const exponent = Math.floor(Math.log2(magnitude));
  return sign | ((exponent + 15) << 10) | ((magnitude / 2 ** exponent - 1) * 1024);
}
