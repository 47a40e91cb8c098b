import { bytesOf } from '../base/testing/bytes.js';
import { createProse } from './prose.js';
import { GOLDEN_FRAMES } from './zstd-golden.js';

/** A frame and its content. */
export interface KnownFrame {
  readonly name: string;
  readonly frame: Uint8Array;
  readonly content: Uint8Array;
}

const hex = (text: string) => Uint8Array.from(text.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16));
/**
 * A frame from its parts.
 *
 * @param header what follows the magic number, in hexadecimal digits.
 * @param blocks each with its type, its size if that is not the number of its bytes, and its bytes.
 * @param tail the checksum.
 */
export function frameOf(
  header: string,
  blocks: readonly { type: number; size?: number; bytes: Uint8Array }[],
  tail = '',
): Uint8Array {
  const parts = blocks.flatMap(({ type, size, bytes }, i) => {
    const value = ((size ?? bytes.length) << 3) | (type << 1) | (i === blocks.length - 1 ? 1 : 0);
    return [Uint8Array.of(value, value >> 8, value >> 16), bytes];
  });
  return Uint8Array.from([hex(`28b52ffd${header}`), ...parts, hex(tail)].flatMap((part) => [...part]));
}

const raw = (bytes: Uint8Array) => ({ type: 0, bytes });
const runLength = (size: number, byte: number) => ({ type: 1, size, bytes: Uint8Array.of(byte) });
const compressed = (bytes: Iterable<number>) => ({ type: 2, bytes: Uint8Array.from(bytes) });

/** Literals as they are, or one of them repeated, with a header of each size; no sequences. */
function literals(type: 0 | 1, size: number, width: 1 | 2 | 3, bytes: Uint8Array): Uint8Array {
  const value = width === 1 ? (size << 3) | type : (size << 4) | (width === 2 ? 4 : 12) | type;
  return Uint8Array.of(...[value, value >> 8, value >> 16].slice(0, width), ...bytes, 0);
}

const A = 0x61;
const text = bytesOf('the literals of a block');

/** Frames that were put together by hand, of kinds that encoders rarely write. */
export const HANDMADE: readonly KnownFrame[] = [
  {
    name: 'raw and run-length blocks, size in one byte',
    frame: frameOf('2019', [raw(text.subarray(0, 20)), runLength(5, A)]),
    content: Uint8Array.of(...text.subarray(0, 20), A, A, A, A, A),
  },
  {
    name: 'a size of eight bytes',
    frame: frameOf('e01700000000000000', [raw(text)]),
    content: text,
  },
  {
    name: 'a size of two bytes and an empty block',
    frame: frameOf('602c00', [runLength(300, A), raw(new Uint8Array(0))]),
    content: new Uint8Array(300).fill(A),
  },
  {
    name: 'raw literals with headers of each size, and a checksum',
    frame: frameOf(
      '0438',
      ([1, 2, 3] as const).map((width) => compressed(literals(0, text.length, width, text))),
      'a50118c1',
    ),
    content: Uint8Array.of(...text, ...text, ...text),
  },
  {
    name: 'repeated literals with headers of each size',
    frame: frameOf(
      '0038',
      ([1, 2, 3] as const).map((width) => compressed(literals(1, 7, width, Uint8Array.of(A + width)))),
    ),
    content: bytesOf('bbbbbbbcccccccddddddd'),
  },
  {
    name: '32,512 sequences without a bit, which take turns between the last two offsets',
    // Tables of one code each: no literals, the second last offset, matches of three bytes.
    frame: frameOf('0038', [raw(bytesOf('abcd')), compressed([0x00, 0xff, 0, 0, 0x54, 0, 0, 0, 0x01])]),
    content: alternating(bytesOf('abcd'), 0x7f00),
  },
];

/** `start`, then `count` matches of three bytes, four bytes back and one byte back in turn. */
function alternating(start: Uint8Array, count: number): Uint8Array {
  const bytes = [...start];
  const offsets = [1, 4];
  for (let i = 0; i < count; i++) {
    offsets.reverse();
    for (let j = 0; j < 3; j++) bytes.push(bytes[bytes.length - offsets[0]!]!);
  }
  return Uint8Array.from(bytes);
}

/** The frames of libzstd. */
export const GOLDEN: readonly KnownFrame[] = GOLDEN_FRAMES.map(({ seed, chunks, words, base64 }) => {
  const prose = createProse(seed);
  return {
    name: `${chunks} flushed chunks of ${words} words`,
    frame: Uint8Array.from(Buffer.from(base64, 'base64')),
    content: bytesOf(Array.from({ length: chunks }, () => prose(words)).join('')),
  };
});
