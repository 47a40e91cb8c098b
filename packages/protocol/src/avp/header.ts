import { ByteReader } from '../bytes.js';
import { ProtocolError } from '../errors.js';

/** The twelve bytes in front of every AVP frame (binary format document, "Header"). */
export interface AvpHeader {
  readonly version: number;
  /** All eight bits as they were sent. */
  readonly flags: number;
  /** Bit 0: the body is one zstd frame. */
  readonly compressed: boolean;
  /** Bit 1: the metadata name a cross-model projection map. */
  readonly hasMap: boolean;
  /** Bit 2: the payload is a KV-cache. */
  readonly isKvCache: boolean;
  /** Bytes behind the header: metadata and body. */
  readonly payloadLength: number;
  /** Bytes of the metadata. */
  readonly metadataLength: number;
}

export const AVP_HEADER_SIZE = 12;
export const AVP_VERSION = 1;

export const AvpFlag = { COMPRESSED: 0x01, HAS_MAP: 0x02, KV_CACHE: 0x04 } as const;
export type AvpFlag = (typeof AvpFlag)[keyof typeof AvpFlag];

/** Bits 3 to 7, zero in version 1. */
export const AVP_RESERVED_FLAGS = 0xf8;

// "AV", as a little-endian number.
const MAGIC = 0x5641;

/**
 * Reads the header alone, for tools and for streams that have no more yet; `bytes` may end behind
 * it or go on.
 *
 * @throws {ProtocolError} `truncated`, `bad_header` (wrong magic, metadata longer than the frame),
 * `unknown_version`.
 */
export function readAvpHeader(bytes: Uint8Array): AvpHeader {
  const reader = new ByteReader(bytes);
  if (reader.u16('the AVP magic number') !== MAGIC) {
    throw new ProtocolError('bad_header', 'the frame does not begin with the AVP magic number 41 56');
  }
  const version = reader.u8('the AVP version');
  if (version !== AVP_VERSION) {
    throw new ProtocolError('unknown_version', `AVP version ${version} is unknown, ${AVP_VERSION} is spoken`);
  }
  const flags = reader.u8('the AVP flags');
  const payloadLength = reader.u32('the AVP payload length');
  const metadataLength = reader.u32('the AVP metadata length');
  if (metadataLength > payloadLength) {
    throw new ProtocolError(
      'bad_header',
      `${metadataLength} bytes of AVP metadata cannot lie within ${payloadLength} bytes`,
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
  const view = new DataView(into.buffer, into.byteOffset, AVP_HEADER_SIZE);
  view.setUint16(0, MAGIC, true);
  view.setUint8(2, AVP_VERSION);
  view.setUint8(3, flags);
  view.setUint32(4, payloadLength, true);
  view.setUint32(8, metadataLength, true);
}
