import { ByteReader } from '../../base/bytes.js';
import { ProtocolError } from '../../base/errors.js';
import type { PayloadType } from './metadata.js';
import {
  bytesOfView,
  createTensor,
  type Dtype,
  dtypeCode,
  dtypeOf,
  isUint32,
  type Tensor,
  tensorByteLength,
} from './tensor.js';

/**
 * The body of a KV-cache frame (binary format document, "KV_CACHE"): a 17-byte header, then for each layer
 * its keys and its values, each `[heads][sequence][dimension]`, row-major. In the header, the head dimension
 * comes before the sequence length; in the tensors, after it.
 */

/** The properties that all layers of a cache share; each number is a uint32. */
export interface KvCacheShape {
  readonly numKvHeads: number;
  readonly headDim: number;
  /** Tokens in the cache. */
  readonly seqLen: number;
  /** int8 is Parlance's addition to the three float types of the reference. */
  readonly dtype: Dtype;
}

export interface KvCacheHeader extends KvCacheShape {
  readonly numLayers: number;
}

export interface KvCacheLayer<T> {
  readonly key: T;
  readonly value: T;
}

/** A decoded cache: its header, and its layers as views that are created on demand. */
export interface KvCache extends KvCacheHeader, Iterable<KvCacheLayer<Tensor>> {
  /**
   * Keys and values of one layer, each of shape `[numKvHeads, seqLen, headDim]`, without a copy.
   *
   * @throws {ProtocolError} `invalid_argument` for an index outside the layers.
   */
  layer(index: number): KvCacheLayer<Tensor>;
}

export const KV_CACHE_HEADER_SIZE = 17;

/** Far more than any model has, and few enough that even empty layers are cheap. */
export const MAX_KV_CACHE_LAYERS = 4096;

/**
 * Bytes of a cache without its header, as the reference estimates them.
 *
 * @throws {ProtocolError} `bad_tensor` if a number is not a uint32 or the product is above 2^53.
 */
export function estimateKvCacheSize(header: KvCacheHeader): number {
  return tensorByteLength(
    [2, header.numLayers, header.numKvHeads, header.seqLen, header.headDim],
    header.dtype,
  );
}

/**
 * @throws {ProtocolError} `bad_tensor` for a number that is not a uint32, `invalid_argument` for an unknown
 * dtype.
 */
export function encodeKvCacheHeader(header: KvCacheHeader): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(KV_CACHE_HEADER_SIZE);
  const view = new DataView(bytes.buffer);
  const numbers = [header.numLayers, header.numKvHeads, header.headDim, header.seqLen];
  for (const [i, number] of numbers.entries()) {
    if (!isUint32(number)) {
      throw new ProtocolError(
        'bad_tensor',
        `the sizes of a KV-cache must be whole numbers below 2^32, not ${number}`,
      );
    }
    view.setUint32(i * 4, number, true);
  }
  view.setUint8(16, dtypeCode(header.dtype));
  return bytes;
}

/**
 * Reads only the header and does not check it; `decodeKvCache` checks it against the bytes after it.
 *
 * @throws {ProtocolError} `truncated`, `bad_tensor` for an unknown dtype.
 */
export function decodeKvCacheHeader(bytes: Uint8Array): KvCacheHeader {
  const reader = new ByteReader(bytes);
  const numLayers = reader.u32('num_layers of the KV-cache');
  const numKvHeads = reader.u32('num_kv_heads of the KV-cache');
  const headDim = reader.u32('head_dim of the KV-cache');
  const seqLen = reader.u32('seq_len of the KV-cache');
  const code = reader.u8('dtype of the KV-cache');
  const dtype = dtypeOf(code);
  if (dtype === undefined) throw new ProtocolError('bad_tensor', `dtype ${code} of the KV-cache is unknown`);
  return { numLayers, numKvHeads, headDim, seqLen, dtype };
}

/**
 * Yields header and tensors in the order of the wire, each as a view: a source for a streamed transfer.
 *
 * @param layers keys and values of each layer in any view, each of `numKvHeads` × `seqLen` × `headDim`
 * elements.
 * @throws {ProtocolError} `bad_tensor` for no layers, too many, or one of another size; `invalid_argument`.
 */
export function* kvCacheParts(
  layers: readonly KvCacheLayer<ArrayBufferView>[],
  shape: KvCacheShape,
): Generator<Uint8Array, void, undefined> {
  const header = { ...shape, numLayers: layers.length };
  checkLayerCount(header.numLayers);
  const size = layerTensorSize(header);
  yield encodeKvCacheHeader(header);
  for (const [index, { key, value }] of layers.entries()) {
    for (const tensor of [key, value]) {
      if (!ArrayBuffer.isView(tensor) || tensor.byteLength !== size) {
        throw new ProtocolError(
          'bad_tensor',
          `keys and values must have ${size} bytes each, layer ${index} has ${tensor?.byteLength}`,
        );
      }
      yield bytesOfView(tensor);
    }
  }
}

/**
 * Joins header and tensors into one body.
 *
 * @throws {ProtocolError} as {@link kvCacheParts}.
 */
export function encodeKvCache(
  layers: readonly KvCacheLayer<ArrayBufferView>[],
  shape: KvCacheShape,
): Uint8Array<ArrayBuffer> {
  checkLayerCount(layers.length);
  const body = new Uint8Array(KV_CACHE_HEADER_SIZE + 2 * layers.length * layerTensorSize(shape));
  let at = 0;
  for (const part of kvCacheParts(layers, shape)) {
    body.set(part, at);
    at += part.length;
  }
  return body;
}

/** The parts of a decoded frame that must agree with its KV-cache. */
export interface KvCacheMessage {
  readonly data: Uint8Array;
  readonly payloadType: PayloadType;
  readonly dtype: Dtype;
  readonly metadata: { readonly numLayers: number };
}

export interface KvCacheDecodeOptions {
  /**
   * Refuse a cache of another number of layers than its metadata state, unless that is 0. Metadata state the layers of the model, of
   * which a hybrid one caches only some.
   *
   * @default false: the header of the cache counts
   */
  readonly hasAllLayers?: boolean | undefined;
}

/**
 * Reads a body, or the body of a decoded frame, whose metadata must then agree with it. It copies nothing and
 * allocates nothing per layer.
 *
 * @throws {ProtocolError} `truncated`, `trailing_bytes`, `bad_tensor` (unknown dtype, no layers or too many,
 * numbers that contradict the metadata).
 */
export function decodeKvCache(
  source: Uint8Array | KvCacheMessage,
  { hasAllLayers = false }: KvCacheDecodeOptions = {},
): KvCache {
  const body = source instanceof Uint8Array ? source : source.data;
  const header = decodeKvCacheHeader(body);
  if (!(source instanceof Uint8Array)) checkAgreement(header, source, hasAllLayers);
  checkLayerCount(header.numLayers);
  const size = layerTensorSize(header);
  const end = KV_CACHE_HEADER_SIZE + 2 * header.numLayers * size;
  if (end > body.length) {
    throw new ProtocolError(
      'truncated',
      `the KV-cache declares ${end} bytes, but only ${body.length} are there`,
    );
  }
  if (end < body.length) {
    throw new ProtocolError('trailing_bytes', `${body.length - end} bytes follow the end of the KV-cache`);
  }

  const shape = Object.freeze([header.numKvHeads, header.seqLen, header.headDim]);
  const tensor = (index: number): Tensor => {
    const at = KV_CACHE_HEADER_SIZE + index * size;
    return createTensor(new Uint8Array(body.buffer, body.byteOffset + at, size), shape, header.dtype);
  };
  const layer = (index: number): KvCacheLayer<Tensor> => {
    if (!(isUint32(index) && index < header.numLayers)) {
      throw new ProtocolError(
        'invalid_argument',
        `a layer must be 0 to ${header.numLayers - 1}, not ${index}`,
      );
    }
    return { key: tensor(2 * index), value: tensor(2 * index + 1) };
  };
  return {
    ...header,
    layer,
    *[Symbol.iterator]() {
      for (let index = 0; index < header.numLayers; index++) yield layer(index);
    },
  };
}

function layerTensorSize(shape: KvCacheShape): number {
  return tensorByteLength([shape.numKvHeads, shape.seqLen, shape.headDim], shape.dtype);
}

function checkLayerCount(count: number): void {
  if (count < 1 || count > MAX_KV_CACHE_LAYERS) {
    throw new ProtocolError(
      'bad_tensor',
      `a KV-cache must have 1 to ${MAX_KV_CACHE_LAYERS} layers, not ${count}`,
    );
  }
}

function checkAgreement(header: KvCacheHeader, message: KvCacheMessage, hasAllLayers: boolean): void {
  if (message.payloadType !== 'kv_cache') {
    throw new ProtocolError('bad_tensor', `the payload is a ${message.payloadType}, not a KV-cache`);
  }
  if (header.dtype !== message.dtype) {
    throw new ProtocolError(
      'bad_tensor',
      `the KV-cache is ${header.dtype}, but its metadata say ${message.dtype}`,
    );
  }
  const declared = message.metadata.numLayers;
  if (hasAllLayers && declared !== 0 && declared !== header.numLayers) {
    throw new ProtocolError(
      'bad_tensor',
      `the KV-cache has ${header.numLayers} layers, but its metadata say ${declared}`,
    );
  }
}
