import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { concatBytes } from '../../base/bytes.js';
import { fromHex, toHex } from '../../base/testing/bytes.js';
import { errorCode } from '../../testing/error-code.js';
import { decodeAvp, encodeAvp } from './frame.js';
import {
  decodeKvCache,
  decodeKvCacheHeader,
  encodeKvCache,
  encodeKvCacheHeader,
  estimateKvCacheSize,
  KV_CACHE_HEADER_SIZE,
  type KvCacheHeader,
  kvCacheParts,
  MAX_KV_CACHE_LAYERS,
} from './kv-cache.js';
import { DTYPES, type Dtype, elementSize } from './tensor.js';
import { type Bytes, bytesOf, makeRecipe, type Recipe, readVectors, sha256 } from './testing/vectors.js';

interface HeaderWords {
  num_layers: number;
  num_kv_heads: number;
  head_dim: number;
  seq_len: number;
  dtype: string;
}

interface BodyCase extends HeaderWords {
  name: string;
  header_hex: string;
  tensor_recipe?: Recipe;
  tensor_bytes?: number;
  body: Bytes;
  layers?: { layer: number; k_offset: number; v_offset: number; k_sha256: string; v_sha256: string }[];
  estimate_kv_cache_size?: number;
  values?: string[];
  k_l0_values?: number[];
  v_l0_values?: number[];
}

interface KvVectors {
  cases: BodyCase[];
  header_cases: (HeaderWords & { hex: string; decoded_dtype: string })[];
  invalid_for_deserialize: { name: string; body: Bytes; reference: { accepts: boolean } }[];
}

const headerOf = (words: HeaderWords): KvCacheHeader => ({
  numLayers: words.num_layers,
  numKvHeads: words.num_kv_heads,
  headDim: words.head_dim,
  seqLen: words.seq_len,
  dtype: words.dtype as Dtype,
});

const vectors = readVectors<KvVectors>('avp-kv-cache.json');

describe('avp-kv-cache vectors', () => {
  it.each(vectors.cases.map((given) => [given.name, given] as const))('%s', (_name, given) => {
    const header = headerOf(given);
    expect(toHex(encodeKvCacheHeader(header))).toBe(given.header_hex);
    const tensors = given.tensor_recipe && makeRecipe(given.tensor_recipe);
    const body =
      bytesOf(given.body) ?? concatBytes([fromHex(given.header_hex), tensors ?? new Uint8Array(0)]);
    expect([body.length, sha256(body)]).toEqual([given.body.length, given.body.sha256]);

    const cache = decodeKvCache(body);
    expect(cache).toMatchObject(header);
    const layers = [...cache];
    expect(layers).toHaveLength(header.numLayers);
    for (const { layer, k_offset, v_offset, k_sha256, v_sha256 } of given.layers ?? []) {
      const { key, value } = cache.layer(layer);
      expect(key.data.buffer).toBe(body.buffer);
      expect([key.data.byteOffset, value.data.byteOffset]).toEqual([
        body.byteOffset + k_offset,
        body.byteOffset + v_offset,
      ]);
      expect([sha256(key.data), sha256(value.data)]).toEqual([k_sha256, v_sha256]);
      if (given.tensor_bytes !== undefined) expect(key.data).toHaveLength(given.tensor_bytes);
      expect(value.shape).toEqual([header.numKvHeads, header.seqLen, header.headDim]);
    }
    const first = cache.layer(0);
    if (given.k_l0_values) expect([...first.key.toTyped()]).toEqual(given.k_l0_values);
    if (given.v_l0_values) expect([...first.value.toTyped()]).toEqual(given.v_l0_values);
    if (given.values) {
      const known = new Map([['smallest subnormal', 2 ** -24]]);
      expect([...first.key.toTyped()]).toEqual(given.values.map((text) => known.get(text) ?? Number(text)));
    }

    const again = encodeKvCache(
      layers.map(({ key, value }) => ({ key: key.data, value: value.data })),
      header,
    );
    expect(sha256(again)).toBe(given.body.sha256);
    if (given.estimate_kv_cache_size !== undefined) {
      expect(estimateKvCacheSize(header)).toBe(given.estimate_kv_cache_size);
      expect(body.length - KV_CACHE_HEADER_SIZE).toBe(given.estimate_kv_cache_size);
    }
  });

  it.each(vectors.header_cases.map((given) => [given.hex, given] as const))('header %s', (hex, given) => {
    const decoded = decodeKvCacheHeader(fromHex(hex));
    expect(decoded).toEqual({ ...headerOf(given), dtype: given.decoded_dtype });
    expect(toHex(encodeKvCacheHeader(decoded))).toBe(hex);
    // For a dtype that the reference silently writes as float16: one of ours, or an error.
    const code = Object.hasOwn(DTYPES, given.dtype) ? 'none' : 'invalid_argument';
    expect(errorCode(() => encodeKvCacheHeader(headerOf(given)))).toBe(code);
  });

  it.each(vectors.invalid_for_deserialize.map((given) => [given.name, given] as const))(
    'refused as by the reference: %s',
    (_name, given) => {
      const body = bytesOf(given.body);
      if (body === undefined) throw new Error('a body without bytes');
      const code = errorCode(() => [...decodeKvCache(body)]);
      if (!given.reference.accepts) expect(code).not.toBe('none');
    },
  );
});

describe('encodeKvCache', () => {
  const shape = { numKvHeads: 2, headDim: 3, seqLen: 4, dtype: 'float16' } as const;
  const tensor = () => new Uint16Array(24);

  it('round-trips its layers', () => {
    fc.assert(
      fc.property(
        fc.record({
          numLayers: fc.integer({ min: 1, max: 4 }),
          numKvHeads: fc.nat(3),
          headDim: fc.nat(4),
          seqLen: fc.nat(3),
          dtype: fc.constantFrom(...(Object.keys(DTYPES) as Dtype[])),
        }),
        fc.nat(255),
        (header, salt) => {
          const size = header.numKvHeads * header.headDim * header.seqLen * elementSize(header.dtype);
          const make = (n: number) => Uint8Array.from({ length: size }, (_, i) => i * 7 + n * 31 + salt);
          const layers = Array.from({ length: header.numLayers }, (_, i) => ({
            key: make(2 * i),
            value: make(2 * i + 1),
          }));
          const body = encodeKvCache(layers, header);
          const cache = decodeKvCache(body);
          expect([...cache].map(({ key, value }) => ({ key: key.data, value: value.data }))).toEqual(layers);
          expect(errorCode(() => decodeKvCache(body.subarray(0, -1)))).toBe('truncated');
          expect(errorCode(() => decodeKvCache(Uint8Array.of(...body, 0)))).toBe('trailing_bytes');
        },
      ),
    );
  });

  it('refuses layers of another size, and an empty list of layers', () => {
    expect(errorCode(() => encodeKvCache([], shape))).toBe('bad_tensor');
    const short = [{ key: tensor(), value: tensor().subarray(1) }];
    expect(errorCode(() => encodeKvCache(short, shape))).toBe('bad_tensor');
    expect(errorCode(() => [...kvCacheParts(short, shape)])).toBe('bad_tensor');
    const missing = [{ key: tensor(), value: undefined as unknown as Uint8Array }];
    expect(errorCode(() => encodeKvCache(missing, shape))).toBe('bad_tensor');
    expect(errorCode(() => encodeKvCache([{ key: tensor(), value: tensor() }], shape))).toBe('none');
  });
});

describe('decodeKvCache', () => {
  const claim = (numLayers: number) =>
    encodeKvCacheHeader({ numLayers, numKvHeads: 0, headDim: 1, seqLen: 1, dtype: 'float16' });

  it('does no work for empty layers', () => {
    expect(errorCode(() => decodeKvCache(claim(1_000_000)))).toBe('bad_tensor');
    expect(errorCode(() => decodeKvCache(claim(0xffffffff)))).toBe('bad_tensor');
    expect(errorCode(() => decodeKvCache(claim(MAX_KV_CACHE_LAYERS + 1)))).toBe('bad_tensor');
    expect([...decodeKvCache(claim(MAX_KV_CACHE_LAYERS))]).toHaveLength(MAX_KV_CACHE_LAYERS);
    expect(errorCode(() => decodeKvCache(claim(0)))).toBe('bad_tensor');
  });

  it('refuses products larger than any memory', () => {
    const max = 0xffffffff;
    const all = { numLayers: 1, numKvHeads: max, headDim: max, seqLen: max, dtype: 'float32' } as const;
    expect(errorCode(() => decodeKvCache(encodeKvCacheHeader(all)))).toBe('bad_tensor');
    expect(errorCode(() => estimateKvCacheSize(all))).toBe('bad_tensor');
    const wraps = { ...all, headDim: 2 ** 31, seqLen: 2, numKvHeads: 1 };
    expect(errorCode(() => decodeKvCache(encodeKvCacheHeader(wraps)))).toBe('truncated');
  });

  it('checks a frame against its metadata', () => {
    const header = { numKvHeads: 1, headDim: 2, seqLen: 2, dtype: 'float16' } as const;
    const layer = { key: new Uint16Array(4), value: Uint16Array.of(0x3c00, 0, 0, 0xfbff) };
    const data = encodeKvCache([layer, layer], header);
    const message = (changes: object) =>
      decodeAvp(encodeAvp({ data, dtype: 'float16', payloadType: 'kv_cache', ...changes }));
    const cache = message({ metadata: { numLayers: 2 } });
    expect([...decodeKvCache(cache).layer(1).value.toTyped()]).toEqual([1, 0, 0, -65504]);
    expect(errorCode(() => cache.toTyped())).toBe('bad_tensor');
    expect(errorCode(() => decodeKvCache(message({})))).toBe('none');
    // Metadata state the layers of the model, of which a hybrid one caches only some.
    const some = message({ metadata: { numLayers: 3 } });
    expect(decodeKvCache(some).numLayers).toBe(2);
    expect(errorCode(() => decodeKvCache(some, { hasAllLayers: true }))).toBe('bad_tensor');
    expect(errorCode(() => decodeKvCache(message({}), { hasAllLayers: true }))).toBe('none');
    expect(errorCode(() => decodeKvCache(message({ dtype: 'bfloat16' })))).toBe('bad_tensor');
    expect(errorCode(() => decodeKvCache(message({ payloadType: 'hidden_state' })))).toBe('bad_tensor');
    expect(errorCode(() => decodeKvCache(cache).layer(2))).toBe('invalid_argument');
    expect(errorCode(() => decodeKvCache(cache).layer(-1))).toBe('invalid_argument');
  });
});
