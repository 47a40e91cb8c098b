import {
  bfloat16ToFloat32,
  encodeKvCacheHeader,
  estimateKvCacheSize,
  float32ToBfloat16,
  KV_CACHE_HEADER_SIZE,
  modelIdentity,
} from '@parlance/protocol';

/**
 * The description of a model with eight billion parameters, and a KV-cache of realistic size. Only the
 * numbers in the cache are invented.
 */

const CONFIG = JSON.stringify({
  _name_or_path: 'example/llama-8b',
  model_type: 'llama',
  hidden_size: 4096,
  num_hidden_layers: 32,
  num_attention_heads: 32,
  num_key_value_heads: 8,
});

export const MODEL = modelIdentity(CONFIG);

/** The state of the last token. */
export function hiddenState(): Float32Array {
  return gaussians(MODEL.hiddenDim);
}

/** The KV-cache of `tokens` tokens: keys and values of every layer. */
export function cacheOf(tokens: number) {
  const shape = {
    numLayers: MODEL.numLayers,
    numKvHeads: MODEL.numKvHeads,
    headDim: MODEL.headDim,
    seqLen: tokens,
    dtype: 'bfloat16',
  } as const;
  return { ...shape, byteLength: KV_CACHE_HEADER_SIZE + estimateKvCacheSize(shape) };
}
export type Cache = ReturnType<typeof cacheOf>;

/** The cache piece by piece, as an inference engine would produce it: never in memory as a whole. */
export function* cacheParts(cache: Cache): Generator<Uint8Array> {
  yield encodeKvCacheHeader(cache);
  for (let at = KV_CACHE_HEADER_SIZE; at < cache.byteLength; at += BLOCK_SIZE) {
    yield block(at).subarray(0, cache.byteLength - at);
  }
}

/** Whether `bytes` equal those that {@link cacheParts} yields at `offset`. Checks samples only. */
export function isOfCache(bytes: Uint8Array, offset: number): boolean {
  for (let i = Math.max(0, KV_CACHE_HEADER_SIZE - offset); i < bytes.length; i += SAMPLE_STEP) {
    const at = offset + i - KV_CACHE_HEADER_SIZE;
    const start = at - (at % BLOCK_SIZE);
    if (bytes[i] !== block(KV_CACHE_HEADER_SIZE + start)[at - start]) return false;
  }
  return true;
}

/** Estimated size of `count` numbers as JSON, in bytes. */
export function jsonSize(count: number, dtype: 'float32' | 'bfloat16'): number {
  const floats = gaussians(1000);
  const sample = dtype === 'float32' ? floats : bfloat16ToFloat32(float32ToBfloat16(floats));
  return Math.round((count * (JSON.stringify(Array.from(sample)).length - 1)) / sample.length);
}

const BLOCK_SIZE = 256 * 1024;
/** Checking every byte would take longer than the transfer. */
const SAMPLE_STEP = 997;

/** Normally distributed numbers (Box-Muller), the same in every process. */
function gaussians(length: number): Float32Array {
  let seed = 1;
  const uniform = () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return (seed + 1) / (2 ** 32 + 1);
  };
  return Float32Array.from(
    { length },
    () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform()),
  );
}

/** The same numbers twice in a row, so that a block can begin at any of them. */
const numbers = new Uint8Array(2 * BLOCK_SIZE);
const half = float32ToBfloat16(gaussians(BLOCK_SIZE / 2));
numbers.set(new Uint8Array(half.buffer));
numbers.copyWithin(BLOCK_SIZE, 0, BLOCK_SIZE);

function block(at: number): Uint8Array {
  const shift = (Math.floor(at / BLOCK_SIZE) * 7918) % BLOCK_SIZE;
  return numbers.subarray(shift, shift + BLOCK_SIZE);
}
