import { type FrameEvents, type FrameLimits, FrameReader } from '../frame-reader.js';

/** Frames of a client, and what a reader says of them. */

export interface SentFrame {
  readonly opcode: number;
  /** Text becomes UTF-8. @default empty */
  readonly payload?: string | Uint8Array | undefined;
  /** @default true */
  readonly isFinal?: boolean | undefined;
  /** The three reserved bits, 0 to 7. @default 0 */
  readonly reserved?: number | undefined;
  /** @default some key */
  readonly key?: Uint8Array | undefined;
  /** @default true */
  readonly isMasked?: boolean | undefined;
  /** Bytes for the length; more than needed are allowed. @default as few as possible */
  readonly lengthBytes?: 0 | 2 | 8 | undefined;
}

const KEY = Uint8Array.of(0x37, 0xfa, 0x21, 0x3d);

export function encodeFrame(frame: SentFrame): Buffer {
  const { opcode, isFinal = true, reserved = 0, key = KEY, isMasked = true } = frame;
  const payload = Buffer.from(frame.payload ?? '');
  const { length } = payload;
  const lengthBytes = frame.lengthBytes ?? (length < 126 ? 0 : length < 0x10000 ? 2 : 8);
  const head = Buffer.alloc(2 + lengthBytes);
  head[0] = (isFinal ? 0x80 : 0) | (reserved << 4) | opcode;
  head[1] = (isMasked ? 0x80 : 0) | (lengthBytes === 0 ? length : lengthBytes === 2 ? 126 : 127);
  if (lengthBytes === 2) head.writeUInt16BE(length, 2);
  if (lengthBytes === 8) head.writeBigUInt64BE(BigInt(length), 2);
  if (!isMasked) return Buffer.concat([head, payload]);
  const bytes = Buffer.concat([head, key, payload]);
  const start = bytes.length - length;
  for (let at = 0; at < length; at++) {
    bytes[start + at] = (bytes[start + at] as number) ^ (key[at & 3] as number);
  }
  return bytes;
}

/** Reports of a reader, in order. */
export type Seen =
  | readonly [kind: 'text' | 'binary' | 'ping', data: string]
  | readonly [kind: 'pong']
  | readonly [kind: 'close', code: number, reason: string]
  | readonly [kind: 'violation', code: number];

/** A reader whose reports are listed; bytes as hexadecimal digits. */
export function listingReader(limits: FrameLimits): { readonly reader: FrameReader; readonly seen: Seen[] } {
  const seen: Seen[] = [];
  const events: FrameEvents = {
    onMessage: (data, isBinary) =>
      seen.push(isBinary ? ['binary', data.toString('hex')] : ['text', data.toString('utf8')]),
    onPing: (data) => seen.push(['ping', data.toString('hex')]),
    onPong: () => seen.push(['pong']),
    onClose: (code, reason) => seen.push(['close', code, reason]),
    onViolation: (code) => seen.push(['violation', code]),
  };
  return { reader: new FrameReader(limits, events), seen };
}

/** Reads copies of the bytes in pieces of `size`, as a reader changes what it is given. */
export function readInPieces(reader: FrameReader, bytes: Uint8Array, size: number): void {
  for (let at = 0; at < bytes.length; at += size) {
    const piece = Buffer.allocUnsafeSlow(Math.min(size, bytes.length - at));
    piece.set(bytes.subarray(at, at + piece.length));
    reader.read(piece);
  }
}
