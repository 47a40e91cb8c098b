import { ProtocolError } from '../../base/errors.js';
import { DEFAULT_LIMITS } from '../../base/limits.js';
import {
  AVP_HEADER_SIZE,
  AVP_RESERVED_FLAGS,
  AvpFlag,
  type AvpHeader,
  readAvpHeader,
  writeAvpHeader,
} from './header.js';
import {
  type AvpMetadata,
  decodeMetadata,
  encodeMetadata,
  MAX_METADATA_SIZE,
  type MetadataFields,
  type PayloadType,
} from './metadata.js';
import { type Dtype, elementSize, tensorByteLength } from './tensor.js';

/**
 * The head of an AVP frame, that is header and metadata: encoding, decoding, and the checks that they agree
 * with each other and with the size of the body.
 */

/** A sender's description of a tensor; everything in `metadata` is optional. */
export interface AvpDescription {
  /**
   * Dimensions, outermost first. If missing or empty, no shape is sent; the reference sends none for
   * KV-caches.
   */
  readonly shape?: readonly number[] | undefined;
  readonly dtype: Dtype;
  readonly payloadType: PayloadType;
  readonly metadata?: AvpMetadataInput | undefined;
}

/** {@link AvpMetadata} as a sender passes it; `extra` may be a plain object. */
export type AvpMetadataInput = {
  readonly [K in keyof AvpMetadata]?:
    | (K extends 'extra' ? AvpMetadata[K] | Readonly<Record<string, string>> : AvpMetadata[K])
    | undefined;
};

export interface DecodeAvpOptions {
  /**
   * Whether to accept what the reference accepts, as far as that is safe: bytes after the frame, reserved
   * flag bits, flags that contradict the metadata (the metadata count), a compression name that contradicts
   * the flag (the flag counts), and a payload that does not match its shape. The checks of lengths, metadata
   * syntax, enum values, checksums and compressed data stay strict.
   *
   * @default false
   */
  readonly lenient?: boolean | undefined;
  /** The most bytes of a body. @default 1 GiB, as `maxTransferSize` */
  readonly maxSize?: number | undefined;
  /** The most bytes of a payload after decompression. @default 16 MiB, as `maxMessageSize` */
  readonly maxDecompressedSize?: number | undefined;
}

/** Everything in a frame except its body. */
export interface AvpHead {
  readonly header: AvpHeader;
  readonly shape: readonly number[];
  readonly dtype: Dtype;
  readonly payloadType: PayloadType;
  readonly metadata: AvpMetadata;
  /** CRC-32 of the payload before compression, if one was sent. */
  readonly checksum: number | undefined;
  /** Bytes of header and metadata: the body begins here. */
  readonly headLength: number;
  /** Bytes of the body on the wire. */
  readonly bodyLength: number;
}

/** The name of the only compression. */
export const COMPRESSION_NAME = 'zstd';
const MAX_UINT32 = 0xffffffff;

export interface AvpBody {
  /** Bytes of the payload before compression. */
  readonly payloadSize: number;
  /** Bytes of the compressed body. @default undefined, not compressed */
  readonly compressedSize?: number | undefined;
  /** CRC-32 of the payload before compression. @default undefined, none is sent */
  readonly checksum?: number | undefined;
}

/**
 * Encodes header and metadata of a frame, for a body that may follow separately, piece by piece.
 *
 * @param room bytes to leave after them, for a body in the same buffer.
 * @throws {ProtocolError} as `encodeAvp`.
 */
export function encodeAvpHead(description: AvpDescription, body: AvpBody, room = 0): Uint8Array<ArrayBuffer> {
  const { payloadType, dtype, shape = [] } = description;
  const metadata = completed(description.metadata ?? {});
  const compressed = body.compressedSize !== undefined;
  const fields: MetadataFields = {
    metadata,
    payloadType,
    dtype,
    shape,
    compression: compressed ? COMPRESSION_NAME : '',
    checksum: body.checksum,
  };
  checkPayloadSize(fields, body.payloadSize);
  const encoded = encodeMetadata(fields);
  const payloadLength = encoded.length + (body.compressedSize ?? body.payloadSize);
  if (payloadLength > MAX_UINT32) {
    throw new ProtocolError(
      'message_too_large',
      `an AVP frame must hold less than 4 GiB, not ${payloadLength} bytes`,
    );
  }
  const flags =
    (compressed ? AvpFlag.COMPRESSED : 0) |
    (metadata.avpMapId === '' ? 0 : AvpFlag.HAS_MAP) |
    (payloadType === 'kv_cache' ? AvpFlag.KV_CACHE : 0);
  const head = new Uint8Array(AVP_HEADER_SIZE + encoded.length + room);
  writeAvpHeader(head, flags, payloadLength, encoded.length);
  head.set(encoded, AVP_HEADER_SIZE);
  return head;
}

/**
 * Decodes header and metadata as soon as they have arrived. The caller can then decide, before the body,
 * whether to accept it and where to put it. The length of an uncompressed body is checked here.
 *
 * @throws {ProtocolError} as {@link decodeAvp}; `truncated` if the metadata are not complete yet.
 */
export function decodeAvpHead(bytes: Uint8Array, options: DecodeAvpOptions = {}): AvpHead {
  const header = readAvpHeader(bytes);
  const bodyLength = header.payloadLength - header.metadataLength;
  // Check this before `truncated`, so that no caller waits for metadata that would be refused.
  const headLength = checkedHeadLength(header, options);
  if (bytes.length < headLength) {
    throw new ProtocolError(
      'truncated',
      `header and metadata take ${headLength} bytes, but only ${bytes.length} are there`,
    );
  }
  const fields = decodeMetadata(
    new Uint8Array(bytes.buffer, bytes.byteOffset + AVP_HEADER_SIZE, header.metadataLength),
  );
  if (options.lenient !== true) {
    checkFlags(header, fields);
    if (!header.compressed) checkPayloadSize(fields, bodyLength);
  }
  const { shape, dtype, payloadType, metadata, checksum } = fields;
  return { header, shape, dtype, payloadType, metadata, checksum, headLength, bodyLength };
}

/**
 * The number of bytes of header and metadata, from the header alone.
 *
 * @throws {ProtocolError} `message_too_large`, `metadata_too_large`.
 */
export function checkedHeadLength(header: AvpHeader, options: DecodeAvpOptions = {}): number {
  const { payloadLength, metadataLength } = header;
  const bodyLength = payloadLength - metadataLength;
  const maxSize = options.maxSize ?? DEFAULT_LIMITS.maxTransferSize;
  if (bodyLength > maxSize) {
    throw new ProtocolError(
      'message_too_large',
      `the AVP body has ${bodyLength} bytes, more than ${maxSize}`,
    );
  }
  if (metadataLength > MAX_METADATA_SIZE) {
    throw new ProtocolError(
      'metadata_too_large',
      `AVP metadata take at most ${MAX_METADATA_SIZE} bytes, not ${metadataLength}`,
    );
  }
  return AVP_HEADER_SIZE + metadataLength;
}

function checkFlags(header: AvpHeader, fields: MetadataFields): void {
  if ((header.flags & AVP_RESERVED_FLAGS) !== 0) {
    throw new ProtocolError('bad_header', `AVP flags ${header.flags.toString(2)} set reserved bits`);
  }
  if (header.isKvCache !== (fields.payloadType === 'kv_cache')) {
    throw new ProtocolError('bad_header', `the KV-cache flag contradicts payload type ${fields.payloadType}`);
  }
  if (header.hasMap !== (fields.metadata.avpMapId !== '')) {
    throw new ProtocolError('bad_header', 'the map flag contradicts avp_map_id');
  }
  if (fields.compression !== '' && (fields.compression !== COMPRESSION_NAME || !header.compressed)) {
    throw new ProtocolError(
      'bad_compression',
      `the metadata name the compression ${JSON.stringify(fields.compression)}, but the flag says ${header.compressed ? 'zstd' : 'none'}`,
    );
  }
}

/**
 * Checks the size of a payload. With a shape, it must match that. A hidden state without a shape must be a
 * whole number of elements if `hiddenDim` is given; anything else may have any size.
 */
export function checkPayloadSize(
  fields: Pick<AvpHead, 'shape' | 'dtype' | 'payloadType' | 'metadata'>,
  size: number,
): void {
  const { shape, dtype, payloadType, metadata } = fields;
  if (shape.length > 0) {
    const expected = tensorByteLength(shape, dtype);
    if (size === expected) return;
    throw new ProtocolError(
      'bad_tensor',
      `shape [${shape.join(', ')}] of ${dtype} takes ${expected} bytes, but the payload has ${size}`,
    );
  }
  const isVector = payloadType === 'hidden_state' && metadata.mode === 'latent' && metadata.hiddenDim > 0;
  if (isVector && size % elementSize(dtype) !== 0) {
    throw new ProtocolError('bad_tensor', `${size} bytes are not a whole number of ${dtype} elements`);
  }
}

const NOTHING = new Uint8Array(0);

function completed(metadata: AvpMetadataInput): AvpMetadata {
  return {
    sessionId: metadata.sessionId ?? '',
    sourceAgentId: metadata.sourceAgentId ?? '',
    targetAgentId: metadata.targetAgentId ?? '',
    modelId: metadata.modelId ?? '',
    hiddenDim: metadata.hiddenDim ?? 0,
    numLayers: metadata.numLayers ?? 0,
    mode: metadata.mode ?? 'latent',
    avpMapId: metadata.avpMapId ?? '',
    extra: mapOf(metadata.extra),
    unknownFields: metadata.unknownFields ?? NOTHING,
  };
}

function mapOf(extra: AvpMetadataInput['extra']): ReadonlyMap<string, string> {
  if (extra === undefined) return new Map();
  return extra instanceof Map ? extra : new Map(Object.entries(extra));
}
