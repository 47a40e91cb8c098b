import { platform } from '#platform';
import { ProtocolError } from '../../base/errors.js';
import { assertChecksum } from './frame.js';
import {
  type AvpDescription,
  type AvpHead,
  checkedHeadLength,
  decodeAvpHead,
  encodeAvpHead,
} from './head.js';
import { AVP_HEADER_SIZE, readAvpHeader } from './header.js';

/**
 * A tensor that is read while it arrives. What travels is an AVP frame; where its metadata hold no
 * checksum, because nobody knew it when the first bytes left, the CRC-32 of the payload as a
 * little-endian uint32 may follow the frame.
 */

/** Bytes of the checksum behind a frame. */
export const TRAILER_SIZE = 4;

/**
 * Header and metadata of a frame whose payload and trailer are sent separately.
 *
 * @throws {ProtocolError} as `encodeAvp`.
 */
export function encodeTransferHead(description: AvpDescription, payloadSize: number): Uint8Array {
  return encodeAvpHead(description, { payloadSize });
}

/** @param crc CRC-32 of the payload. */
export function encodeTrailer(crc: number): Uint8Array {
  const trailer = new Uint8Array(TRAILER_SIZE);
  new DataView(trailer.buffer).setUint32(0, crc, true);
  return trailer;
}

/**
 * Takes the bytes of one transfer in order, in pieces of any size, and tells head and payload apart.
 * Keeps nothing but the head. What can be refused early is: lengths that contradict each other, the
 * metadata, the shape.
 */
export class TransferReader {
  /** Once it is complete. */
  head: AvpHead | undefined;
  readonly #totalLength: number;
  /** Of the head; its size is known when the first twelve bytes are there. */
  #beginning: Uint8Array = new Uint8Array(AVP_HEADER_SIZE);
  #filled = 0;
  /** Bytes of the body that were read. */
  #read = 0;
  #crc = 0;
  readonly #trailer = new Uint8Array(TRAILER_SIZE);
  #trailerFilled = 0;

  /** @param totalLength bytes that the transfer was announced with. */
  constructor(totalLength: number) {
    this.#totalLength = totalLength;
  }

  /**
   * @returns what of `bytes` belongs to the body, as a view.
   * @throws {ProtocolError} as `decodeAvpHead`, `truncated`, `trailing_bytes`.
   */
  push(bytes: Uint8Array): Uint8Array {
    let rest = bytes;
    while (this.head === undefined) {
      rest = this.#fill(rest);
      if (this.#filled < this.#beginning.length) return NOTHING;
      this.#readBeginning();
    }
    const body = rest.subarray(0, this.head.bodyLength - this.#read);
    this.#read += body.length;
    if (!this.head.header.compressed) this.#crc = platform.crc32(body, this.#crc);
    const behind = rest.subarray(body.length);
    this.#trailer.set(behind, this.#trailerFilled);
    this.#trailerFilled += behind.length;
    return body;
  }

  /** The CRC-32 that was stated for the payload, in front of it or behind; known at the end. */
  get statedChecksum(): number | undefined {
    if (this.head?.checksum !== undefined) return this.head.checksum;
    if (this.#trailerFilled < TRAILER_SIZE) return undefined;
    return new DataView(this.#trailer.buffer).getUint32(0, true);
  }

  /**
   * Holds the body, which is whole and not compressed, against the checksum that was stated.
   *
   * @throws {ProtocolError} `bad_checksum`.
   */
  verify(): void {
    const stated = this.statedChecksum;
    if (stated !== undefined) assertChecksum(this.#crc, stated);
  }

  #fill(bytes: Uint8Array): Uint8Array {
    const part = bytes.subarray(0, this.#beginning.length - this.#filled);
    this.#beginning.set(part, this.#filled);
    this.#filled += part.length;
    return bytes.subarray(part.length);
  }

  #readBeginning(): void {
    if (this.#beginning.length === AVP_HEADER_SIZE) {
      const header = readAvpHeader(this.#beginning);
      this.#checkLength(AVP_HEADER_SIZE + header.payloadLength);
      const beginning = new Uint8Array(checkedHeadLength(header, UNLIMITED));
      beginning.set(this.#beginning);
      this.#beginning = beginning;
      if (beginning.length > AVP_HEADER_SIZE) return;
    }
    const head = decodeAvpHead(this.#beginning, UNLIMITED);
    if (head.checksum !== undefined && this.#totalLength > head.headLength + head.bodyLength) {
      throw new ProtocolError('trailing_bytes', 'a checksum follows a frame that states one itself');
    }
    this.head = head;
  }

  #checkLength(frameLength: number): void {
    const extra = this.#totalLength - frameLength;
    if (extra === 0 || extra === TRAILER_SIZE) return;
    throw new ProtocolError(
      extra < 0 ? 'truncated' : 'trailing_bytes',
      `the AVP frame has ${frameLength} bytes, the transfer ${this.#totalLength}`,
    );
  }
}

/** How large a transfer may be is the business of whoever takes it. */
const UNLIMITED = { maxSize: Infinity };
const NOTHING = new Uint8Array(0);

/**
 * Memory for a body of a stated length, which may be a lie: it never has more room than sixteen times
 * what has arrived, and memory that nothing was written to costs next to nothing.
 */
export class BodyBuffer {
  readonly #length: number;
  #bytes = new Uint8Array(0);
  #filled = 0;

  /** @param length bytes that are to come. */
  constructor(length: number) {
    this.#length = length;
  }

  /** Copies `bytes` behind those before; never more than were announced. */
  append(bytes: Uint8Array): void {
    const filled = this.#filled + bytes.length;
    if (filled > this.#bytes.length) {
      const grown = new Uint8Array(Math.min(this.#length, filled * GROWTH));
      grown.set(this.#bytes.subarray(0, this.#filled));
      this.#bytes = grown;
    }
    this.#bytes.set(bytes, this.#filled);
    this.#filled = filled;
  }

  /** All bytes that were announced, once they are there. */
  finish(): Uint8Array {
    return this.#bytes;
  }
}

/** A smaller one copies more often, and the last copy of a large body holds everybody up. */
const GROWTH = 16;
