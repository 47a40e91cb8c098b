import { type CodedBody, plainBody } from '../../codec/body.js';

/** A body that begins with its number and its length; both determine every other byte. @param length at least 8 bytes. */
export function numberedBody(number: number, length: number): CodedBody {
  const bytes = new Uint8Array(length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, number);
  view.setUint32(4, length);
  for (let i = 8; i < length; i++) bytes[i] = patternAt(number, i);
  return plainBody(bytes);
}

/** The number of a body, or a description of its damage. */
export function numberOf(bytes: Uint8Array): number | string {
  if (bytes.length < 8) return `a body of ${bytes.length} bytes`;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const number = view.getUint32(0);
  const length = view.getUint32(4);
  if (length !== bytes.length) return `body ${number} of ${length} bytes has ${bytes.length}`;
  for (let i = 8; i < length; i++) {
    if (bytes[i] !== patternAt(number, i)) return `body ${number} differs at byte ${i} of ${length}`;
  }
  return number;
}

const patternAt = (number: number, i: number): number => (number * 31 + i * 7) & 0xff;
