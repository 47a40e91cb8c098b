import { readZstdFrame } from '../platform/zstd-frame.js';

const BLOCKS = ['raw block', 'run-length block', 'compressed block'];
const LITERALS = ['raw literals', 'run-length literals', 'Huffman literals', 'literals with the last table'];
const TABLES = ['predefined', 'run-length', 'described', 'repeated'];
const KINDS = ['literal lengths', 'offsets', 'match lengths'];

/** Names what a zstd frame uses of the format (RFC 8878), so that tests can tell that they saw all of it. */
export function censusOf(frame: Uint8Array): Set<string> {
  const found = new Set<string>();
  const { headerSize, contentSize } = readZstdFrame(frame);
  const descriptor = frame[4] as number;
  found.add(contentSize === undefined ? 'no content size' : `content size flag ${descriptor >> 6}`);
  found.add((descriptor & 0x20) === 0 ? 'window' : 'single segment');
  found.add((descriptor & 4) === 0 ? 'no checksum' : 'checksum');
  let at = headerSize;
  for (let last = false, count = 1; !last; count++) {
    const header = frame[at]! | (frame[at + 1]! << 8) | (frame[at + 2]! << 16);
    at += 3;
    last = (header & 1) !== 0;
    const type = (header >> 1) & 3;
    const size = header >> 3;
    found.add(BLOCKS[type] as string);
    if (count > 1) found.add('several blocks');
    if (type === 2) for (const name of blockCensus(frame.subarray(at, at + size))) found.add(name);
    at += type === 1 ? 1 : size;
  }
  return found;
}

function* blockCensus(block: Uint8Array): Generator<string> {
  const byte = (i: number) => block[i] ?? 0;
  const type = byte(0) & 3;
  const format = (byte(0) >> 2) & 3;
  let at: number;
  if (type < 2) {
    const width = [1, 2, 1, 3][format] as number;
    yield `${LITERALS[type]}, ${width} bytes of header`;
    const size = [byte(0) >> 3, (byte(0) >> 4) | (byte(1) << 4)][format & 1] as number;
    at = width + (type === 1 ? 1 : format === 3 ? size + (byte(2) << 12) : size);
  } else {
    const width = Math.max(3, format + 2);
    yield `${LITERALS[type]}, ${format === 0 ? 1 : 4} streams, ${width} bytes of header`;
    const header = byte(0) + byte(1) * 2 ** 8 + byte(2) * 2 ** 16 + byte(3) * 2 ** 24 + byte(4) * 2 ** 32;
    const bits = [10, 10, 14, 18][format] as number;
    at = width + (Math.floor(header / 2 ** (4 + bits)) % 2 ** bits);
    if (type === 2) yield byte(width) < 128 ? 'weights in a table' : 'weights as they are';
  }
  const count = byte(at);
  yield count === 0 ? 'no sequences' : `${count < 128 ? 1 : count < 255 ? 2 : 3} bytes of sequence count`;
  if (count === 0) return;
  const modes = byte(at + (count < 128 ? 1 : count < 255 ? 2 : 3));
  for (const [i, kind] of KINDS.entries()) yield `${TABLES[(modes >> (6 - 2 * i)) & 3]} ${kind}`;
}

/** All names that `censusOf` can find in a frame that an encoder writes. */
export const EVERYTHING: ReadonlySet<string> = new Set([
  'no content size',
  ...[0, 1, 2, 3].map((flag) => `content size flag ${flag}`),
  'window',
  'single segment',
  'checksum',
  'no checksum',
  'several blocks',
  ...BLOCKS,
  ...LITERALS.slice(0, 2).flatMap((name) => [1, 2, 3].map((width) => `${name}, ${width} bytes of header`)),
  ...LITERALS.slice(2).flatMap((name) => [
    `${name}, 1 streams, 3 bytes of header`,
    ...[3, 4, 5].map((width) => `${name}, 4 streams, ${width} bytes of header`),
  ]),
  'weights in a table',
  'weights as they are',
  'no sequences',
  ...[1, 2, 3].map((width) => `${width} bytes of sequence count`),
  ...TABLES.flatMap((table) => KINDS.map((kind) => `${table} ${kind}`)),
]);
