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
 * A tensor that is read while it arrives. A transfer is an AVP frame. If its metadata hold no checksum,
 * because the sender did not know it when it sent the head, the CRC-32 of the payload may follow the frame as
 * a little-endian uint32.
 */

/** Bytes of the checksum after a frame. */
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
 * Reads the bytes of one transfer in order, in pieces of any size, and separates head and payload. It keeps
 * only the head. It refuses early what it can: contradicting lengths, bad metadata, a bad shape.
 */
export class TransferReader {
  /** The head, once it is complete. */
  head: AvpHead | undefined;
  readonly #totalLength: number;
  /** The bytes of the head so far. Their total is known after the first twelve. */
  #beginning: Uint8Array = new Uint8Array(AVP_HEADER_SIZE);
  #filled = 0;
  /** Bytes of the body that were read. */
  #read = 0;
  #crc = 0;
  readonly #trailer = new Uint8Array(TRAILER_SIZE);
  #trailerFilled = 0;

  /** @param totalLength the announced number of bytes of the transfer. */
  constructor(totalLength: number) {
    this.#totalLength = totalLength;
  }

  /**
   * @returns the part of `bytes` that belongs to the body, as a view.
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
    const trailing = rest.subarray(body.length);
    this.#trailer.set(trailing, this.#trailerFilled);
    this.#trailerFilled += trailing.length;
    return body;
  }

  /** The CRC-32 that the sender gave for the payload, before or after it; known at the end. */
  get expectedChecksum(): number | undefined {
    if (this.head?.checksum !== undefined) return this.head.checksum;
    if (this.#trailerFilled < TRAILER_SIZE) return undefined;
    return new DataView(this.#trailer.buffer).getUint32(0, true);
  }

  /**
   * Checks the body against the sender's checksum. The body must be complete and not compressed.
   *
   * @throws {ProtocolError} `bad_checksum`.
   */
  verify(): void {
    const expected = this.expectedChecksum;
    if (expected !== undefined) assertChecksum(this.#crc, expected);
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
      throw new ProtocolError('trailing_bytes', 'a checksum follows a frame that already holds one');
    }
    this.head = head;
  }

  #checkLength(frameLength: number): void {
    const extra = this.#totalLength - frameLength;
    if (extra === 0 || extra === TRAILER_SIZE) return;
    throw new ProtocolError(
      extra < 0 ? 'truncated' : 'trailing_bytes',
      `the AVP frame has ${frameLength} bytes, but the transfer has ${this.#totalLength}`,
    );
  }
}

/** The caller limits the size of a transfer. */
const UNLIMITED = { maxSize: Infinity };
const NOTHING = new Uint8Array(0);

/**
 * Collects a body of an announced length, which may be false. So the buffer never has room for more than
 * sixteen times the bytes that have arrived; memory without data in it costs next to nothing.
 */
export class BodyBuffer {
  readonly #length: number;
  #bytes = new Uint8Array(0);
  #filled = 0;

  /** @param length the announced number of bytes. */
  constructor(length: number) {
    this.#length = length;
  }

  /** Appends `bytes`; all together must not exceed the announced length. */
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

  /** The body, once all announced bytes have arrived. */
  finish(): Uint8Array {
    return this.#bytes;
  }
}

/** A smaller factor copies more often, and the last copy of a large body blocks the event loop. */
const GROWTH = 16;
