import { decodeAvp, encodeAvp, loadCodecs, ProtocolError } from '@parlance/protocol';
import { timeInTurns } from '../codecs/timing.js';
import { atMost, compare, type Row } from '../row.js';
import { watchMemory } from './memory.js';

/** The most that refusing a frame may cost its receiver. */
const MAX_MS = 50;
const MAX_MIB = 32;
const MIB = 2 ** 20;

const TENSOR = { dtype: 'int8', payloadType: 'hidden_state' } as const;

/** Frames that are inconsistent, or that expand to far more than their size. */
export async function* measureRefusals(rounds: number): AsyncGenerator<Row> {
  await loadCodecs(['AVP']);
  const data = new Uint8Array(1024).fill(7);
  const whole = encodeAvp({ ...TENSOR, data, shape: [1024] });
  const frames: Readonly<Record<string, Uint8Array>> = {
    '1 GiB of zstd': compressedFrame(runLengthBlocks([0xa0, 0, 0, 0, 0x40], 8192, 128 * 1024)),
    '1 GiB of zstd, size not stated': compressedFrame(runLengthBlocks([0, 0x38], 8192, 128 * 1024)),
    '1 GiB of zstd, seen when unpacked': compressedFrame(compressedBlocks(8192)),
    '2^62 bytes of zstd': compressedFrame(runLengthBlocks([0xe0, 0, 0, 0, 0, 0, 0, 0, 0x40], 1, 10)),
    'a wrong checksum': changed(whole, whole.length - 1, 8),
    // The last two bytes before the checksum are the shape, 1024 as a varint.
    'a wrong shape': changed(whole, whole.length - 1024 - 7, 9),
    'a cut frame': whole.subarray(0, -1),
    'bytes behind the frame': Buffer.concat([whole, Buffer.alloc(1)]),
  };
  const run = (name: string) => refuse(name, frames[name] as Uint8Array);
  // Measured before anything else runs: memory that a decoder has allocated once would not show later.
  for (const name of Object.keys(frames)) {
    const memory = watchMemory();
    run(name);
    const limit = { name: `${MAX_MIB} MiB`, value: MAX_MIB };
    const peak = (memory.peak() - memory.base) / MIB;
    yield compare(`refusing ${name}, memory`, 'MiB', 'lower', peak, limit, atMost(1));
  }
  const times = timeInTurns(new Map(Object.keys(frames).map((name) => [name, () => run(name)])), rounds);
  for (const [name, us] of times) {
    const limit = { name: `${MAX_MS} ms`, value: MAX_MS };
    yield compare(`refusing ${name}`, 'ms', 'lower', us / 1000, limit, atMost(1));
  }
}

function refuse(name: string, frame: Uint8Array): void {
  try {
    decodeAvp(frame);
  } catch (error) {
    if (error instanceof ProtocolError) return;
    throw error;
  }
  throw new Error(`${name} was accepted`);
}

/**
 * A zstd frame of `count` run-length blocks, four bytes each. @param header the bytes after the magic number.
 */
function runLengthBlocks(header: readonly number[], count: number, size: number): Uint8Array {
  const bytes = [0x28, 0xb5, 0x2f, 0xfd, ...header];
  for (let i = 0; i < count; i++) {
    const block = (size << 3) | 2 | (i === count - 1 ? 1 : 0);
    bytes.push(block & 0xff, (block >> 8) & 0xff, block >> 16, 0);
  }
  return Uint8Array.from(bytes);
}

/** A zstd frame of `count` × 128 KiB that does not state its size; only its blocks add up to it. */
function compressedBlocks(count: number): Uint8Array {
  const frame = encodeAvp(
    { ...TENSOR, data: Buffer.alloc(128 * 1024, 'ab') },
    { compression: 'balanced', checksum: false },
  );
  const at = Buffer.from(frame.buffer).indexOf('28b52ffda0', 'hex');
  if (at < 0) throw new Error('the zstd frame does not begin with a four-byte size');
  const last = frame.subarray(at + 9);
  const block = last.slice();
  block[0] = (last[0] ?? 0) & ~1;
  // The header of a streaming encoder: a window of 128 KiB, and no size.
  const head = Uint8Array.of(0x28, 0xb5, 0x2f, 0xfd, 0, 0x38);
  return Buffer.concat([head, ...Array<Uint8Array>(count - 1).fill(block), last]);
}

function compressedFrame(body: Uint8Array): Uint8Array {
  const frame = encodeAvp({ ...TENSOR, data: body }, { checksum: false });
  frame[3] = 1;
  return frame;
}

function changed(bytes: Uint8Array, at: number, to: number): Uint8Array {
  const copy = bytes.slice();
  copy[at] = to;
  return copy;
}
