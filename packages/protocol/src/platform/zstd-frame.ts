import { ProtocolError } from '../base/errors.js';

/**
 * The sizes that a zstd frame declares (RFC 8878, section 3.1.1), read without decompressing anything: enough
 * to refuse a bomb, a false size or trailing data before memory is spent.
 */
export interface ZstdFrame {
  /** Bytes before the first block. */
  readonly headerSize: number;
  /** The declared size of the content in bytes; `undefined` if the frame declares none. */
  readonly contentSize: number | undefined;
  /** The least that the frame can decompress to, in bytes: its raw and run-length blocks. */
  readonly minSize: number;
  /** The most that the frame can decompress to, in bytes: `minSize` and 128 KiB for each compressed block. */
  readonly maxSize: number;
}

const MAGIC = 0xfd2fb528;
const MAX_BLOCK_SIZE = 128 * 1024;
/** The largest window that zstd decoders accept by default. */
const MAX_WINDOW_LOG = 27;
const BLOCK_HEADER_SIZE = 3;
const CHECKSUM_SIZE = 4;
const DICTIONARY_ID_SIZES = [0, 1, 2, 4] as const;
const BlockType = { RAW: 0, RLE: 1, COMPRESSED: 2 } as const;

/**
 * Reads the frame header and walks over the block headers. `bytes` must be exactly one frame.
 *
 * @throws {ProtocolError} `bad_compression` for anything else: another format, a skippable frame, a
 * dictionary ID, a window over 128 MiB, a missing end, data after the end, or a declared size that
 * the blocks cannot hold.
 */
export function readZstdFrame(bytes: Uint8Array): ZstdFrame {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  if (bytes.length < 5 || view.getUint32(0, true) !== MAGIC) throw bad('does not begin with a zstd frame');
  const descriptor = view.getUint8(4);
  const singleSegment = (descriptor & 0x20) !== 0;
  if ((descriptor & 0x08) !== 0) throw bad('sets a reserved bit of its header');

  let at = 5;
  if (!singleSegment) {
    if (at >= bytes.length) throw cut();
    if (view.getUint8(at) >> 3 > MAX_WINDOW_LOG - 10) {
      throw bad(`asks for a window of more than ${2 ** MAX_WINDOW_LOG} bytes`);
    }
    at++;
  }
  const dictionaryIdSize = DICTIONARY_ID_SIZES[(descriptor & 3) as 0 | 1 | 2 | 3];
  if (at + dictionaryIdSize > bytes.length) throw cut();
  for (const end = at + dictionaryIdSize; at < end; at++) {
    if (view.getUint8(at) !== 0) throw bad('asks for a dictionary by number');
  }

  const sizeFlag = descriptor >> 6;
  const sizeLength = sizeFlag === 0 ? (singleSegment ? 1 : 0) : 1 << sizeFlag;
  if (at + sizeLength > bytes.length) throw cut();
  const contentSize = readContentSize(view, at, sizeLength);
  at += sizeLength;
  const headerSize = at;

  let minSize = 0;
  let maxSize = 0;
  for (let last = false; !last; ) {
    if (at + BLOCK_HEADER_SIZE > bytes.length) throw cut();
    const header = view.getUint16(at, true) | (view.getUint8(at + 2) << 16);
    at += BLOCK_HEADER_SIZE;
    last = (header & 1) !== 0;
    const type = (header >> 1) & 3;
    const size = header >> 3;
    if (size > MAX_BLOCK_SIZE) throw bad('holds a block of more than 128 KiB');
    if (type === BlockType.COMPRESSED) {
      at += size;
      maxSize += MAX_BLOCK_SIZE;
    } else if (type === BlockType.RAW || type === BlockType.RLE) {
      at += type === BlockType.RAW ? size : 1;
      minSize += size;
      maxSize += size;
    } else {
      throw bad('holds a block of the reserved type');
    }
  }
  if ((descriptor & 0x04) !== 0) at += CHECKSUM_SIZE;
  if (at > bytes.length) throw cut();
  if (at < bytes.length) throw bad(`is followed by ${bytes.length - at} more bytes`);
  return { headerSize, contentSize, minSize, maxSize };
}

/** Sizes above 2^53 lose low bits here, which makes no difference when compared with a limit. */
function readContentSize(view: DataView, at: number, length: number): number | undefined {
  switch (length) {
    case 0:
      return undefined;
    case 1:
      return view.getUint8(at);
    case 2:
      return view.getUint16(at, true) + 256;
    case 4:
      return view.getUint32(at, true);
    default:
      return view.getUint32(at, true) + view.getUint32(at + 4, true) * 2 ** 32;
  }
}

function bad(what: string): ProtocolError {
  return new ProtocolError('bad_compression', `zstd data ${what}`);
}

function cut(): ProtocolError {
  return bad('ends before its frame does');
}
