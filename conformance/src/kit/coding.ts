import { crc32 } from 'node:zlib';
import { compressZstd } from './bodies.js';
import { join, varint } from './frames.js';

/** Bodies of codec CONTEXT (section 9), as the kit writes them. */

export const u32 = (value: number): Uint8Array => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value >>> 0);
  return bytes;
};

export interface Coding {
  /** 0 is none, 1 the last part of the stream, 2 the newest message. */
  readonly base?: number;
  readonly replaces?: boolean;
  /** The content of the base. */
  readonly against?: string;
  readonly isPart?: boolean;
  readonly compressed?: boolean;
  readonly crc?: number;
}

/** A body of codec CONTEXT. */
export function coded(text: string, coding: Coding = {}): Uint8Array {
  const { base = 0, replaces = false, against = '', isPart = false, compressed = false } = coding;
  const content = Buffer.from(text);
  const known = Buffer.from(against);
  const most = Math.min(content.length, known.length);
  let prefix = 0;
  while (prefix < most && content[prefix] === known[prefix]) prefix++;
  const middle = content.subarray(prefix);
  return join(
    varint(base * 4 + (replaces ? 2 : 0) + (compressed ? 1 : 0)),
    base === 0 ? [] : [...varint(prefix), ...varint(0)],
    isPart ? [] : u32(coding.crc ?? crc32(content)),
    compressed ? compressZstd(middle, known) : middle,
  );
}
