import { ProtocolError } from '../../base/errors.js';

/** The first twelve bytes of every AVP frame (binary format document, "Header"). */
export interface AvpHeader {
  readonly version: number;
  /** All eight bits as received. */
  readonly flags: number;
  /** Bit 0: the body is one zstd frame. */
  readonly compressed: boolean;
  /** Bit 1: the metadata name a cross-model projection map. */
  readonly hasMap: boolean;
  /** Bit 2: the payload is a KV-cache. */
  readonly isKvCache: boolean;
  /** Bytes after the header: metadata and body. */
  readonly payloadLength: number;
  /** Bytes of the metadata. */
  readonly metadataLength: number;
}

export const AVP_HEADER_SIZE = 12;
export const AVP_VERSION = 1;

export const AvpFlag = { COMPRESSED: 0x01, HAS_MAP: 0x02, KV_CACHE: 0x04 } as const;
export type AvpFlag = (typeof AvpFlag)[keyof typeof AvpFlag];

/** Bits 3 to 7, which are zero in version 1. */
export const AVP_RESERVED_FLAGS = 0xf8;

// "AV".
const MAGIC_0 = 0x41;
const MAGIC_1 = 0x56;

/**
 * Reads only the header, for tools and for streams that have just begun to arrive; `bytes` may be longer.
 *
 * @throws {ProtocolError} `truncated`, `bad_header` (wrong magic, metadata longer than the frame),
 * `unknown_version`.
 */
export function readAvpHeader(bytes: Uint8Array): AvpHeader {
  if (bytes.length < AVP_HEADER_SIZE) {
    throw new ProtocolError('truncated', `an AVP header has ${AVP_HEADER_SIZE} bytes, not ${bytes.length}`);
  }
  if (bytes[0] !== MAGIC_0 || bytes[1] !== MAGIC_1) {
    throw new ProtocolError('bad_header', 'the frame does not begin with the AVP magic number 41 56');
  }
  const version = bytes[2] as number;
  if (version !== AVP_VERSION) {
    throw new ProtocolError(
      'unknown_version',
      `AVP version ${version} is not supported, only ${AVP_VERSION}`,
    );
  }
  const flags = bytes[3] as number;
  const payloadLength = readUint32(bytes, 4);
  const metadataLength = readUint32(bytes, 8);
  if (metadataLength > payloadLength) {
    throw new ProtocolError(
      'bad_header',
      `${metadataLength} bytes of AVP metadata do not fit into a frame of ${payloadLength} bytes`,
    );
  }
  return {
    version,
    flags,
    compressed: (flags & AvpFlag.COMPRESSED) !== 0,
    hasMap: (flags & AvpFlag.HAS_MAP) !== 0,
    isKvCache: (flags & AvpFlag.KV_CACHE) !== 0,
    payloadLength,
    metadataLength,
  };
}

/** Writes a header of version 1 to the first {@link AVP_HEADER_SIZE} bytes of `into`. */
export function writeAvpHeader(
  into: Uint8Array,
  flags: number,
  payloadLength: number,
  metadataLength: number,
): void {
  into[0] = MAGIC_0;
  into[1] = MAGIC_1;
  into[2] = AVP_VERSION;
  into[3] = flags;
  writeUint32(into, 4, payloadLength);
  writeUint32(into, 8, metadataLength);
}

// Creating a `DataView` for twelve bytes would cost more than reading them.

function readUint32(bytes: Uint8Array, at: number): number {
  const [a, b, c, d] = [bytes[at]!, bytes[at + 1]!, bytes[at + 2]!, bytes[at + 3]!];
  return (a | (b << 8) | (c << 16) | (d << 24)) >>> 0;
}

function writeUint32(into: Uint8Array, at: number, value: number): void {
  into[at] = value;
  into[at + 1] = value >>> 8;
  into[at + 2] = value >>> 16;
  into[at + 3] = value >>> 24;
}
