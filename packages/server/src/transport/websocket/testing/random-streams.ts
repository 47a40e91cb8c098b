// The library is the oracle here, and no part of what is tested.
import * as library from 'ws';
import type { FrameLimits } from '../frame-reader.js';
import { encodeFrame, listingReader, type Seen, type SentFrame } from './frames.js';

/** Random streams of bytes in random pieces, read here and by the library `ws`, which must see the same after each piece. */

/** A seeded generator (mulberry32): the same numbers everywhere. */
export function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

interface Stream {
  readonly pieces: readonly Buffer[];
  readonly limits: FrameLimits;
}

const OPCODES = [0, 0, 0, 1, 1, 2, 2, 2, 8, 9, 9, 10, 3, 12];
const SIZES = [0, 0, 1, 2, 3, 5, 17, 124, 125, 126, 127, 128, 300, 1_000];
const MAX_PAYLOADS = [100, 300, 1_000, 5_000, 70_000];
const CODES = [1000, 1001, 1004, 1005, 1006, 1011, 1014, 1015, 2999, 3000, 4999, 5000, 65_535];
/** Pieces of text, of which the last three are not UTF-8. */
const TEXTS = ['61', 'c3a4', 'e282ac', 'f09f9880', 'efbfbf', 'eda080', 'c0af', 'f4908080'].map((digits) =>
  Buffer.from(digits, 'hex'),
);

export function randomStream(random: () => number): Stream {
  const below = (count: number) => Math.floor(random() * count);
  const oneOf = <T>(values: readonly T[]) => values[below(values.length)] as T;
  const randomBytes = (size: number) => Buffer.from(Array.from({ length: size }, () => below(256)));
  const maxPayload = oneOf(MAX_PAYLOADS);
  const limits = { maxPayload, maxFragments: oneOf([0, 1, 2, 4, 100]) };

  const text = (size: number): Buffer => {
    const bad = random() < 0.1 ? TEXTS.length : TEXTS.length - 3;
    const parts = Array.from({ length: size }, () => TEXTS[below(bad)] as Buffer);
    // Most of the time it ends within a character.
    return Buffer.concat(parts).subarray(0, size);
  };
  const closing = (): Buffer => {
    const size = below(3) === 0 ? below(4) : 2 + below(125);
    const body = Buffer.concat([Buffer.alloc(2), text(size)]).subarray(0, size);
    if (size >= 2) body.writeUInt16BE(oneOf(CODES), 0);
    return body;
  };
  /** Whether the frames so far have begun a message that has not ended. */
  let isWithin = false;
  const frame = (): Buffer => {
    let opcode = oneOf(OPCODES);
    // A stream of random opcodes ends at its second frame.
    if (opcode < 3 && random() < 0.95) opcode = isWithin ? 0 : 1 + below(2);
    const isControl = opcode >= 8;
    const isFinal = isControl ? random() < 0.98 : random() < 0.6;
    if (!isControl) isWithin = !isFinal;
    const near = random() < 0.1 ? maxPayload + below(3) - 1 : oneOf(SIZES);
    const size = random() < 0.004 ? oneOf([65_535, 65_536, 65_537]) : isControl ? Math.min(near, 126) : near;
    const sent: SentFrame = {
      opcode,
      isFinal,
      payload:
        opcode === 8 ? closing() : opcode === 2 || size > 5_000 ? Buffer.alloc(size, below(256)) : text(size),
      reserved: random() < 0.01 ? below(8) : 0,
      isMasked: random() < 0.99,
      key: random() < 0.2 ? Buffer.alloc(4) : randomBytes(4),
    };
    return encodeFrame(random() < 0.05 ? { ...sent, lengthBytes: 8 } : sent);
  };

  const bytes =
    random() < 0.05 ? randomBytes(below(60)) : Buffer.concat(Array.from({ length: 1 + below(12) }, frame));
  // Damage, or an end in the midst.
  if (bytes.length > 0 && random() < 0.1) bytes[below(bytes.length)] = below(256);
  const whole = random() < 0.1 ? bytes.subarray(0, below(bytes.length + 1)) : bytes;

  const most = oneOf([1, 2, 7, 60, 1_000, 70_000]);
  const pieces: Buffer[] = [];
  for (let at = 0; at < whole.length; ) {
    // Single bytes of long streams would take all the time.
    const size = 1 + below(whole.length > 2_000 ? Math.max(most, whole.length >> 4) : most);
    pieces.push(whole.subarray(at, at + size));
    at += size;
  }
  return { pieces, limits };
}

/** The receiver of `ws`, which its types leave out. */
interface LibraryReceiver {
  on(event: string, listener: (...values: never[]) => void): void;
  write(chunk: Buffer): void;
}

const LibraryReceiverClass = (library as unknown as { Receiver: new (options: object) => LibraryReceiver })
  .Receiver;

export interface Difference {
  readonly pieces: readonly string[];
  readonly limits: FrameLimits;
  readonly ours: readonly Seen[];
  readonly theirs: readonly Seen[];
}

/**
 * Reads a stream twice. The library reports violations a moment later.
 *
 * @returns how the two differ, and the kind of the last thing that was read, or the code of a violation.
 */
export async function compare({
  pieces,
  limits,
}: Stream): Promise<{ readonly difference?: Difference; readonly last: string }> {
  const { reader, seen: ours } = listingReader(limits);
  const theirs: Seen[] = [];
  const receiver = new LibraryReceiverClass({ isServer: true, ...limits });
  receiver.on('message', (data: Buffer, isBinary: boolean) =>
    theirs.push(isBinary ? ['binary', data.toString('hex')] : ['text', data.toString('utf8')]),
  );
  receiver.on('ping', (data: Buffer) => theirs.push(['ping', data.toString('hex')]));
  receiver.on('pong', () => theirs.push(['pong']));
  receiver.on('conclude', (code: number, reason: Buffer) =>
    theirs.push(['close', code, reason.toString('utf8')]),
  );
  receiver.on('error', (error: Error) => theirs.push(['violation', statusOf(error)]));

  let compared = 0;
  for (const piece of pieces) {
    const isOver = reader.isOver;
    reader.read(Buffer.from(piece));
    if (!isOver) receiver.write(Buffer.from(piece));
    if (ours.length !== theirs.length) await settled();
    const isSame = ours.length === theirs.length && isSameFrom(compared, ours, theirs);
    compared = ours.length;
    if (!isSame) {
      const difference = { pieces: pieces.map((each) => each.toString('hex')), limits, ours, theirs };
      return { difference, last: 'difference' };
    }
  }
  const last = ours.at(-1);
  return { last: last?.[0] === 'violation' ? `${last[1]}` : (last?.[0] ?? 'nothing') };
}

const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

function isSameFrom(first: number, ours: readonly Seen[], theirs: readonly Seen[]): boolean {
  for (let at = first; at < ours.length; at++) {
    const [mine, other] = [ours[at] as Seen, theirs[at] as Seen];
    if (mine[0] !== other[0] || mine[1] !== other[1] || mine[2] !== other[2]) return false;
  }
  return true;
}

/** The close code, which the library has under a symbol. */
function statusOf(error: Error): number {
  for (const symbol of Object.getOwnPropertySymbols(error)) {
    const value = (error as unknown as Record<symbol, unknown>)[symbol];
    if (typeof value === 'number') return value;
  }
  return 0;
}
