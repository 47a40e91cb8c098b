import { ByteReader, ByteWriter } from '../../base/bytes.js';
import { ProtocolError } from '../../base/errors.js';
import { readZstdFrame } from '../../platform/zstd-frame.js';
import { NEWEST, NO_BASE, SLOT } from './state.js';

/**
 * The body of codec CONTEXT.
 *
 *     varint   base × 4 | replaces × 2 | compressed
 *     varint   bytes that message and base both begin with   only with a base
 *     varint   bytes that message and base both end with     only with a base
 *     4 bytes  CRC-32 of the message, little-endian          not in parts of a reply
 *     rest     the middle: uncompressed, or a zstd frame with the base as its dictionary
 *
 * Parts have a single CRC-32 over all of them, in the END of their stream: four bytes each would be a third
 * of their size.
 */
export interface ContextBody extends ContextHead {
  readonly prefix: number;
  readonly suffix: number;
  /** CRC-32 of the message; `undefined` in a part. */
  readonly checksum: number | undefined;
  /** The coded bytes between prefix and suffix. */
  readonly middle: Uint8Array;
}

export interface ContextHead {
  /** Position of the base; 0 if there is none. */
  readonly base: number;
  /** The message replaces its base in the list. */
  readonly replaces: boolean;
  /** The middle is a zstd frame. */
  readonly compressed: boolean;
}

const COMPRESSED = 1;
const REPLACES = 2;
const POSITION = 4;
/** The largest first number of a body that is accepted; a list has at most 64 entries. */
export const MAX_CONTEXT_HEAD = 128 * POSITION;

/** Usual maximum of bytes before the middle. */
const HEAD_ROOM = 16;

export function encodeContextBody(body: ContextBody): Uint8Array<ArrayBuffer> {
  const { base, checksum, middle } = body;
  const writer = new ByteWriter(HEAD_ROOM + middle.length);
  writer.varint(base * POSITION + (body.replaces ? REPLACES : 0) + (body.compressed ? COMPRESSED : 0));
  if (base !== NO_BASE) writer.varint(body.prefix).varint(body.suffix);
  if (checksum !== undefined) writer.u32(checksum);
  return writer.append(middle).finish();
}

/**
 * @param isPart whether the body is a part of a reply, which has no CRC of its own.
 * @throws {ProtocolError} `bad_frame`, `bad_varint`, `truncated`.
 */
export function decodeContextBody(bytes: Uint8Array, isPart: boolean): ContextBody {
  const reader = new ByteReader(bytes);
  const head = readHead(reader);
  const based = head.base !== NO_BASE;
  return {
    ...head,
    prefix: based ? reader.varint('the common prefix') : 0,
    suffix: based ? reader.varint('the common suffix') : 0,
    checksum: isPart ? undefined : reader.u32('the CRC of the message'),
    middle: reader.rest(),
  };
}

/**
 * Reads the first number of a body from its first frame. @throws {ProtocolError} as
 * {@link decodeContextBody}.
 */
export function readContextHead(first: Uint8Array): ContextHead {
  return readHead(new ByteReader(first));
}

function readHead(reader: ByteReader): ContextHead {
  return parseContextHead(reader.varint('the base', MAX_CONTEXT_HEAD));
}

/** Parses the first number of a body. @throws {ProtocolError} `bad_frame`. */
export function parseContextHead(head: number): ContextHead {
  const base = Math.floor(head / POSITION);
  const replaces = (head & REPLACES) !== 0;
  if (replaces && base < NEWEST)
    throw new ProtocolError('bad_frame', 'a body may only replace a base of the list');
  return { base, replaces, compressed: (head & COMPRESSED) !== 0 };
}

/** A readable description of a body, for tools. */
export interface ContextDescription {
  readonly base: 'none' | 'last part of the stream' | `message ${number} back`;
  readonly replacesBase: boolean;
  /** Bytes taken from the beginning and from the end of the base. */
  readonly prefix: number;
  readonly suffix: number;
  readonly coding: 'as it is' | 'zstd';
  /** Bytes of the middle on the wire, and decoded if the zstd frame declares its size. */
  readonly middle: number;
  readonly decodedMiddle: number | undefined;
  /** Bytes of the whole message, if known. */
  readonly length: number | undefined;
  /** CRC-32 of the message; parts of a reply have none. */
  readonly checksum: number | undefined;
}

/**
 * Describes a body without its base.
 *
 * @param isPart whether the body is a part of a reply.
 * @throws {ProtocolError} as {@link decodeContextBody}, and `bad_compression`.
 */
export function describeContextBody(bytes: Uint8Array, isPart: boolean): ContextDescription {
  const { base, replaces, compressed, prefix, suffix, checksum, middle } = decodeContextBody(bytes, isPart);
  const decodedMiddle = compressed ? readZstdFrame(middle).contentSize : middle.length;
  return {
    base:
      base === NO_BASE
        ? 'none'
        : base === SLOT
          ? 'last part of the stream'
          : `message ${base - NEWEST + 1} back`,
    replacesBase: replaces,
    prefix,
    suffix,
    coding: compressed ? 'zstd' : 'as it is',
    middle: middle.length,
    decodedMiddle,
    length: decodedMiddle === undefined ? undefined : prefix + decodedMiddle + suffix,
    checksum,
  };
}
