import { platform } from '#platform';
import { ProtocolError } from '../../base/errors.js';
import { DEFAULT_LIMITS } from '../../base/limits.js';
import {
  type AvpDescription,
  type AvpHead,
  COMPRESSION_NAME,
  checkPayloadSize,
  type DecodeAvpOptions,
  decodeAvpHead,
  encodeAvpHead,
} from './head.js';
import { bytesOfView, elementSize, type Tensor, type TypedTensor, toTypedArray } from './tensor.js';

/**
 * AVP frames: header, metadata, body (binary format document). Decoding is strict by default: header,
 * metadata and body must not contradict each other.
 */

export interface AvpInput extends AvpDescription {
  /** Little-endian elements in any view. Its byte length must match `shape` and `dtype`. */
  readonly data: ArrayBufferView;
}

/** zstd levels, by the names of the reference. */
export const AVP_COMPRESSION_LEVELS = { none: 0, fast: 1, balanced: 3, max: 19 } as const;
export type AvpCompression = keyof typeof AVP_COMPRESSION_LEVELS;

export interface EncodeAvpOptions {
  /**
   * The body stays uncompressed if compression would not make the frame smaller, or if the body is larger
   * than the runtime's zstd accepts per call (`platform.zstdMaxInput`).
   *
   * @default 'none'
   */
  readonly compression?: AvpCompression | undefined;
  /** Whether to send a CRC-32 of the payload. @default true */
  readonly checksum?: boolean | undefined;
}

/** A decoded frame. It can be encoded again unchanged, including unknown fields. */
export interface AvpMessage extends Tensor, AvpHead {
  /** Bytes of `data`. */
  readonly byteLength: number;
}

/** The bytes that compression adds to the metadata: a tag, a length and the name. */
const COMPRESSION_FIELD_SIZE = 2 + COMPRESSION_NAME.length;

/**
 * Encodes a tensor as one frame.
 *
 * @throws {ProtocolError} `bad_tensor` (data, shape and dtype do not match), `invalid_argument`,
 * `lone_surrogate`, `metadata_too_large`, `message_too_large` (4 GiB), `codec_not_loaded`.
 */
export function encodeAvp(message: AvpInput, options: EncodeAvpOptions = {}): Uint8Array<ArrayBuffer> {
  const payload = payloadOf(message);
  const compressed = compress(payload, options.compression ?? 'none');
  const body = compressed ?? payload;
  const parts = {
    payloadSize: payload.length,
    compressedSize: compressed?.length,
    checksum: (options.checksum ?? true) ? platform.crc32(payload) : undefined,
  };
  const frame = encodeAvpHead(message, parts, body.length);
  frame.set(body, frame.length - body.length);
  return frame;
}

/**
 * The bytes of a tensor. Without a shape to check the length against, a view with elements of another size
 * than the dtype's is refused: it is most likely a tensor that still has to be converted.
 */
export function payloadOf({ data, shape, dtype }: AvpInput): Uint8Array {
  if (!ArrayBuffer.isView(data)) {
    throw new ProtocolError('invalid_argument', 'data must be a typed array or a DataView');
  }
  const width = (data as { readonly BYTES_PER_ELEMENT?: number }).BYTES_PER_ELEMENT ?? 1;
  if (width !== 1 && width !== elementSize(dtype) && (shape === undefined || shape.length === 0)) {
    throw new ProtocolError(
      'bad_tensor',
      `data has elements of ${width} bytes, but ${dtype} has ${elementSize(dtype)}`,
    );
  }
  return bytesOfView(data);
}

function compress(payload: Uint8Array, compression: AvpCompression): Uint8Array | undefined {
  if (!Object.hasOwn(AVP_COMPRESSION_LEVELS, compression)) {
    throw new ProtocolError(
      'invalid_argument',
      `compression must be one of ${Object.keys(AVP_COMPRESSION_LEVELS).join(', ')}, not ${String(compression)}`,
    );
  }
  const level = AVP_COMPRESSION_LEVELS[compression];
  if (level === 0 || payload.length > platform.zstdMaxInput) return undefined;
  const compressed = platform.zstdCompress(payload, level);
  return compressed.length + COMPRESSION_FIELD_SIZE < payload.length ? compressed : undefined;
}

/**
 * Decodes one frame. `data` is a view of `bytes` unless it was compressed.
 *
 * @throws {ProtocolError} `truncated`, `trailing_bytes`, `bad_header`, `unknown_version`,
 * `bad_message`, `bad_utf8`, `metadata_too_large`, `bad_tensor`, `bad_checksum`, `bad_compression`,
 * `message_too_large`, `decompressed_too_large`, `codec_not_loaded`.
 */
export function decodeAvp(bytes: Uint8Array, options: DecodeAvpOptions = {}): AvpMessage {
  const head = decodeAvpHead(bytes, options);
  const end = head.headLength + head.bodyLength;
  if (bytes.length < end) {
    throw new ProtocolError(
      'truncated',
      `the AVP frame declares ${end} bytes, but only ${bytes.length} are there`,
    );
  }
  if (bytes.length > end && options.lenient !== true) {
    throw new ProtocolError('trailing_bytes', `${bytes.length - end} bytes follow the end of the AVP frame`);
  }
  // Not `subarray`, which for a Buffer would return another Buffer.
  const body = new Uint8Array(bytes.buffer, bytes.byteOffset + head.headLength, head.bodyLength);
  const data = decodePayload(head, body, options);
  if (head.checksum !== undefined) assertChecksum(platform.crc32(data), head.checksum);
  return createAvpMessage(head, data);
}

/**
 * The payload in a body; the body itself unless it is compressed.
 *
 * @throws {ProtocolError} `bad_compression`, `decompressed_too_large`, `bad_tensor`, `codec_not_loaded`.
 */
export function decodePayload(head: AvpHead, body: Uint8Array, options: DecodeAvpOptions): Uint8Array {
  if (!head.header.compressed) return body;
  const data = platform.zstdDecompress(body, options.maxDecompressedSize ?? DEFAULT_LIMITS.maxMessageSize);
  if (options.lenient !== true) checkPayloadSize(head, data.length);
  return data;
}

/** @throws {ProtocolError} `bad_checksum`. */
export function assertChecksum(found: number, declared: number): void {
  if (found === declared) return;
  throw new ProtocolError('bad_checksum', 'the CRC-32 of the AVP payload does not match its content');
}

/** Creates a message from a head and the payload that was checked against it. */
export function createAvpMessage(head: AvpHead, data: Uint8Array): AvpMessage {
  const { header, shape, dtype, payloadType, metadata, checksum, headLength, bodyLength } = head;
  const toTyped = (): TypedTensor => {
    if (payloadType === 'kv_cache' && shape.length === 0) {
      throw new ProtocolError('bad_tensor', 'a KV-cache holds many tensors; use decodeKvCache(message)');
    }
    return toTypedArray(data, dtype);
  };
  return {
    data,
    byteLength: data.length,
    shape,
    dtype,
    toTyped,
    payloadType,
    metadata,
    header,
    checksum,
    headLength,
    bodyLength,
  };
}
