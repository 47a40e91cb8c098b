import { createDecipheriv, createHmac } from 'node:crypto';
import { brotliDecompressSync } from 'node:zlib';
import { fail, holds, same } from './expect.js';

/**
 * Compares two M2M v1 frames of the same message part by part (wire document, section 3.3). Written
 * independently of the codec under test, with Node's own Brotli and ciphers.
 */

const PREFIX_LENGTH = 7;
const FLAGS_OFFSET = PREFIX_LENGTH + 4;
const COMPRESSED = 1 << 24;
const CRC_OFFSET = 4;
const TAIL_HEAD_LENGTH = 8;
const HMAC_LENGTH = 32;
const NONCE_LENGTH = 12;
const TAG_LENGTH = 16;

export interface Protection {
  readonly mode: 'HMAC' | 'AEAD';
  readonly key: Uint8Array;
}

interface Layout {
  readonly header: Uint8Array;
  readonly nonce: Uint8Array;
  readonly payload: Uint8Array;
  readonly crc: Uint8Array;
  readonly compressed: boolean;
}

/**
 * Byte for byte, except for what the vectors leave to the encoder: the Brotli stream of a compressed payload.
 * Encoders of quality 5 and window 22 nearly always agree and otherwise differ in single commands, so a
 * different stream must hold the same text in about the same size.
 */
export function sameFrame(
  actual: Uint8Array,
  expected: Uint8Array,
  json: string,
  protection?: Protection,
): void {
  const [ours, theirs] = [layoutOf(actual, protection), layoutOf(expected, protection)];
  same(ours.header, theirs.header, 'header');
  same(ours.nonce, theirs.nonce, 'nonce');
  same(ours.crc, theirs.crc, 'CRC');
  if (theirs.compressed) sameStream(ours.payload, theirs.payload, json);
  else same(ours.payload, theirs.payload, 'payload');
}

/** The same Brotli stream, or one of the same text and, within 1 %, the same size. */
export function sameStream(actual: Uint8Array, expected: Uint8Array, text: string): void {
  if (Buffer.compare(actual, expected) === 0) return;
  for (const stream of [actual, expected]) same(textIn(stream), text, 'text of the Brotli stream');
  const difference = Math.abs(actual.length - expected.length);
  holds(
    difference <= Math.max(4, expected.length / 100),
    `the Brotli stream has ${actual.length} bytes, at quality 5 it has ${expected.length}`,
  );
}

function textIn(stream: Uint8Array): string {
  try {
    return brotliDecompressSync(stream).toString('utf8');
  } catch (error) {
    return fail(`a Brotli stream is damaged: ${String(error)}`);
  }
}

function layoutOf(frame: Uint8Array, protection: Protection | undefined): Layout {
  const view = new DataView(frame.buffer, frame.byteOffset, frame.length);
  const tailAt = PREFIX_LENGTH + view.getUint16(PREFIX_LENGTH, true);
  const header = frame.slice(0, tailAt);
  const { nonce, tail } = open(frame, tailAt, protection);
  const length = new DataView(tail.buffer, tail.byteOffset).getUint32(0, true);
  const payload = tail.slice(TAIL_HEAD_LENGTH);
  same(payload.length, length, 'payload_len');
  const compressed = (view.getUint32(FLAGS_OFFSET, true) & COMPRESSED) !== 0;
  return { header, nonce, payload, crc: tail.slice(CRC_OFFSET, TAIL_HEAD_LENGTH), compressed };
}

/** Checks and removes the protection of a frame's tail. */
function open(frame: Uint8Array, tailAt: number, protection: Protection | undefined) {
  const none = new Uint8Array(0);
  if (protection === undefined) return { nonce: none, tail: frame.slice(tailAt) };
  if (protection.mode === 'HMAC') {
    const end = frame.length - HMAC_LENGTH;
    const signed = frame.slice(PREFIX_LENGTH, end);
    const tag = createHmac('sha256', protection.key).update(signed).digest();
    same(Buffer.from(frame.slice(end)), tag, 'HMAC tag');
    return { nonce: none, tail: frame.slice(tailAt, end) };
  }
  const nonce = frame.slice(tailAt, tailAt + NONCE_LENGTH);
  const end = frame.length - TAG_LENGTH;
  const cipher = createDecipheriv('chacha20-poly1305', protection.key.slice(0, 32), nonce, {
    authTagLength: TAG_LENGTH,
  });
  cipher.setAAD(frame.slice(PREFIX_LENGTH, tailAt), { plaintextLength: end - tailAt - NONCE_LENGTH });
  cipher.setAuthTag(frame.slice(end));
  const opened = [cipher.update(frame.slice(tailAt + NONCE_LENGTH, end)), cipher.final()];
  return { nonce, tail: new Uint8Array(Buffer.concat(opened)) };
}
