import { ProtocolError } from '../../base/errors.js';
import { bfloat16ToFloat32, float16ToFloat32 } from './float16.js';

/**
 * Tensors on the wire: contiguous, row-major, little-endian bytes with a shape and an element type (binary
 * format document, fields `dtype` and `tensor_shape`).
 */

/** Element types by their public names, with the number on the wire and the size in bytes. */
export const DTYPES = {
  float32: { code: 0, size: 4 },
  float16: { code: 1, size: 2 },
  bfloat16: { code: 2, size: 2 },
  int8: { code: 3, size: 1 },
} as const;
export type Dtype = keyof typeof DTYPES;

const DTYPE_NAMES = Object.keys(DTYPES) as Dtype[];

/** The most dimensions of a shape; NumPy and PyTorch also stop at 64. */
export const MAX_RANK = 64;

/** The elements of a tensor as numbers. */
export type TypedTensor = Float32Array<ArrayBuffer> | Int8Array<ArrayBuffer>;

export interface Tensor {
  /** Little-endian elements; a view of the decoded bytes if possible. */
  readonly data: Uint8Array;
  /** Dimensions, outermost first; empty if none were given. */
  readonly shape: readonly number[];
  readonly dtype: Dtype;
  /**
   * The elements as numbers: `Float32Array` for the float types, `Int8Array` for int8. float32 and int8 are
   * views of `data` if its alignment allows, otherwise copies; float16 and bfloat16 are widened exactly.
   *
   * @throws {ProtocolError} `bad_tensor` if the bytes are not a whole number of elements.
   */
  toTyped(): TypedTensor;
}

export function createTensor(data: Uint8Array, shape: readonly number[], dtype: Dtype): Tensor {
  return { data, shape, dtype, toTyped: () => toTypedArray(data, dtype) };
}

/** The element type of a wire number, `undefined` if there is none. */
export function dtypeOf(code: number): Dtype | undefined {
  return DTYPE_NAMES[code];
}

/** @throws {ProtocolError} `invalid_argument` for an unknown element type. */
export function dtypeCode(dtype: Dtype): number {
  return dtypeInfo(dtype).code;
}

/** Bytes of one element. @throws {ProtocolError} `invalid_argument`. */
export function elementSize(dtype: Dtype): number {
  return dtypeInfo(dtype).size;
}

function dtypeInfo(dtype: Dtype): { readonly code: number; readonly size: number } {
  if (Object.hasOwn(DTYPES, dtype)) return DTYPES[dtype];
  throw new ProtocolError(
    'invalid_argument',
    `dtype must be one of ${DTYPE_NAMES.join(', ')}, not ${String(dtype)}`,
  );
}

/**
 * The number of bytes of a tensor, exact for every possible shape.
 *
 * @throws {ProtocolError} `bad_tensor` for more than {@link MAX_RANK} dimensions, a dimension that is not a
 * uint32, or a product above 2^53.
 */
export function tensorByteLength(shape: readonly number[], dtype: Dtype): number {
  if (shape.length > MAX_RANK) {
    throw new ProtocolError(
      'bad_tensor',
      `a shape may have at most ${MAX_RANK} dimensions, not ${shape.length}`,
    );
  }
  let bytes = elementSize(dtype);
  for (const dimension of shape) {
    if (!isUint32(dimension)) {
      throw new ProtocolError(
        'bad_tensor',
        `a dimension must be a whole number below 2^32, not ${dimension}`,
      );
    }
    // A product above 2^53 is rounded, but a later zero still makes it 0.
    bytes *= dimension;
  }
  if (bytes > Number.MAX_SAFE_INTEGER) {
    throw new ProtocolError('bad_tensor', `shape [${shape.join(', ')}] holds more than 2^53 bytes`);
  }
  return bytes;
}

export function isUint32(value: unknown): value is number {
  return typeof value === 'number' && value >>> 0 === value;
}

/** See {@link Tensor.toTyped}. */
export function toTypedArray(data: Uint8Array, dtype: Dtype): TypedTensor {
  switch (dtype) {
    case 'float32':
      return toFloat32Array(data);
    case 'int8':
      return new Int8Array(data.buffer as ArrayBuffer, data.byteOffset, data.length);
    case 'float16':
      return float16ToFloat32(toUint16Array(data));
    case 'bfloat16':
      return bfloat16ToFloat32(toUint16Array(data));
    default:
      throw new ProtocolError(
        'invalid_argument',
        `unknown dtype ${String(dtype)}; known dtypes: ${DTYPE_NAMES.join(', ')}`,
      );
  }
}

/** The bit patterns of a float16 or bfloat16 tensor; a view if the alignment allows. */
export function toUint16Array(data: Uint8Array): Uint16Array<ArrayBuffer> {
  const aligned = alignedTo(data, 2);
  return new Uint16Array(aligned.buffer as ArrayBuffer, aligned.byteOffset, aligned.length / 2);
}

function toFloat32Array(data: Uint8Array): Float32Array<ArrayBuffer> {
  const aligned = alignedTo(data, 4);
  return new Float32Array(aligned.buffer as ArrayBuffer, aligned.byteOffset, aligned.length / 4);
}

const LITTLE_ENDIAN = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1;

function alignedTo(data: Uint8Array, size: number): Uint8Array {
  if (data.length % size !== 0) {
    throw new ProtocolError(
      'bad_tensor',
      `${data.length} bytes are not a whole number of ${size}-byte elements`,
    );
  }
  if (!LITTLE_ENDIAN) {
    throw new ProtocolError('unsupported', 'typed views of tensors need a little-endian machine');
  }
  // `Uint8Array.prototype.slice`, because that of `Buffer` returns another view.
  return data.byteOffset % size === 0 ? data : Uint8Array.prototype.slice.call(data);
}

/** The bytes of any view, without a copy. */
export function bytesOfView(view: ArrayBufferView): Uint8Array {
  return view instanceof Uint8Array
    ? view
    : new Uint8Array(view.buffer as ArrayBuffer, view.byteOffset, view.byteLength);
}
