import { bytesOf, makeRecipe, sameDigest, sha256, toHex } from './avp-bytes.js';
import { kvBody } from './avp-frame.js';
import { accepted, fail, holds, outcomeOf, refused, same } from './expect.js';
import type { Family } from './family.js';
import type { Fields } from './fields.js';
import {
  type Dtype,
  decodeKvCache,
  decodeKvCacheHeader,
  encodeKvCache,
  encodeKvCacheHeader,
  estimateKvCacheSize,
  KV_CACHE_HEADER_SIZE,
  type KvCache,
} from './subject.js';

/** KV-cache bodies: header, layers, and damaged bodies. */
export const avpKvCache: Family = {
  file: 'avp-kv-cache.json',
  head: ['generator', 'encoding', 'recipes', 'layout'],
  sections: [
    { name: 'cases', check: checkBody },
    { name: 'header_cases', check: checkHeader },
    { name: 'invalid_for_deserialize', check: checkInvalid },
    // The output of the reference's serializer for input that the cases do not contain.
    { name: 'serializer_weaknesses', informative: true, check: () => fail('the case gives no input') },
  ],
};

/** The dtypes of a KV-cache on the wire; the reference reads every other word as float16. */
const DTYPES = ['float32', 'float16', 'bfloat16', 'int8'] as const satisfies readonly Dtype[];

function headerOf(given: Fields) {
  return {
    numLayers: given.number('num_layers'),
    numKvHeads: given.number('num_kv_heads'),
    headDim: given.number('head_dim'),
    seqLen: given.number('seq_len'),
    dtype: given.text('dtype') as Dtype,
  };
}

function checkBody(given: Fields): void {
  const header = headerOf(given);
  holds(DTYPES.includes(header.dtype), `the runner does not know the dtype ${header.dtype}`);
  const written = accepted(() => encodeKvCacheHeader(header), 'the header');
  same(toHex(written), given.text('header_hex'), 'header_hex');
  same(written.at(-1), given.number('dtype_byte'), 'dtype_byte');
  const tensors = given.has('tensor_recipe') ? makeRecipe(given.object('tensor_recipe')) : undefined;
  const body =
    bytesOf(given.object('body')) ?? (tensors && new Uint8Array(Buffer.concat([written, tensors])));
  if (body === undefined) return fail('the case gives no body');
  sameDigest(body, given.object('body'));

  const cache = accepted(() => decodeKvCache(body), 'the body');
  for (const [name, value] of Object.entries(header)) same(cache[name as keyof KvCache], value, name);
  const layers = [...cache];
  same(layers.length, header.numLayers, 'layers');
  for (const layer of given.maybe('objects', 'layers') ?? []) checkLayer(layer, cache, body, given);
  checkElements(given, cache);

  const again = accepted(
    () =>
      encodeKvCache(
        layers.map(({ key, value }) => ({ key: key.data, value: value.data })),
        header,
      ),
    'the layers',
  );
  sameDigest(again, given.object('body'));
  if (tensors !== undefined) sameDigest(kvBody(given, tensors), given.object('body'));
  if (given.has('estimate_kv_cache_size')) {
    const estimate = given.number('estimate_kv_cache_size');
    same(
      accepted(() => estimateKvCacheSize(header), 'the estimate'),
      estimate,
      'estimate_kv_cache_size',
    );
    same(body.length - KV_CACHE_HEADER_SIZE, estimate, 'bytes after the header');
  }
}

/** The tensors of a layer must be views of the body, with the offsets and content of the vector. */
function checkLayer(given: Fields, cache: KvCache, body: Uint8Array, whole: Fields): void {
  const { key, value } = cache.layer(given.number('layer'));
  for (const [name, tensor] of [
    ['k', key],
    ['v', value],
  ] as const) {
    holds(tensor.data.buffer === body.buffer, `the ${name} tensor was copied`);
    same(tensor.data.byteOffset - body.byteOffset, given.number(`${name}_offset`), `${name}_offset`);
    same(sha256(tensor.data), given.text(`${name}_sha256`), `${name}_sha256`);
    if (whole.has('tensor_bytes')) same(tensor.data.length, whole.number('tensor_bytes'), 'tensor_bytes');
    same([...tensor.shape], [cache.numKvHeads, cache.seqLen, cache.headDim], 'shape');
  }
}

const WORDS: Readonly<Record<string, number>> = {
  '+inf': Number.POSITIVE_INFINITY,
  inf: Number.POSITIVE_INFINITY,
  Infinity: Number.POSITIVE_INFINITY,
  '-inf': Number.NEGATIVE_INFINITY,
  '-Infinity': Number.NEGATIVE_INFINITY,
  nan: Number.NaN,
  NaN: Number.NaN,
};

/** The elements of the first layer as numbers. */
function checkElements(given: Fields, cache: KvCache): void {
  const typed = (tensor: 'key' | 'value') => [...cache.layer(0)[tensor].toTyped()];
  if (given.has('k_l0_values')) same(typed('key'), given.numbers('k_l0_values'), 'k_l0_values');
  if (given.has('v_l0_values')) same(typed('value'), given.numbers('v_l0_values'), 'v_l0_values');
  if (!given.has('values')) return;
  const smallest = { float16: 2 ** -24, bfloat16: 2 ** -133, float32: 2 ** -149, int8: 1 }[cache.dtype];
  const expected = given.list('values').map((value) => {
    if (typeof value === 'number') return value;
    if (value === 'smallest subnormal') return smallest;
    const word = String(value);
    return Object.hasOwn(WORDS, word) ? (WORDS[word] as number) : Number(word);
  });
  same(typed('key'), expected, 'values');
}

function checkHeader(given: Fields): void {
  const bytes = given.hex('hex');
  const header = headerOf(given);
  const decoded = accepted(() => decodeKvCacheHeader(bytes), 'the header');
  same({ ...decoded }, { ...header, dtype: given.text('decoded_dtype') }, 'header');
  same(
    toHex(accepted(() => encodeKvCacheHeader(decoded), 'the header')),
    given.text('hex'),
    'header encoded again',
  );
  // The reference writes an unknown dtype as float16; ours refuses.
  if (!DTYPES.includes(header.dtype)) refused(() => encodeKvCacheHeader(header), `the dtype ${header.dtype}`);
  else if (header.dtype === given.text('decoded_dtype')) {
    same(toHex(accepted(() => encodeKvCacheHeader(header), 'the header')), given.text('hex'), 'header');
  } else {
    const own = accepted(() => decodeKvCacheHeader(encodeKvCacheHeader(header)), 'our own header');
    same(own.dtype, header.dtype, 'dtype of our own header');
  }
}

function checkInvalid(given: Fields): void {
  const body = bytesOf(given.object('body'));
  if (body === undefined) return fail('the case gives no body');
  const outcome = outcomeOf(() => [...decodeKvCache(body)]);
  if (!given.object('reference').flag('accepts')) holds(!outcome.accepted, 'the body was accepted');
}
