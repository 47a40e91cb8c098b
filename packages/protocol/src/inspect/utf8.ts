import { assertWellFormed } from '../base/text.js';
import { attempt, Fault } from './report.js';

/** Where text is not UTF-8, which the strict codec does not tell. */

const lossy = new TextDecoder('utf-8', { ignoreBOM: true });

/** The offset of the first byte that belongs to no character, the length where all do. */
export function validUtf8Length(bytes: Uint8Array): number {
  let valid = 0;
  let beyond = bytes.length + 1;
  while (beyond - valid > 1) {
    const middle = (valid + beyond) >> 1;
    if (isValidStart(bytes.subarray(0, middle))) valid = middle;
    else beyond = middle;
  }
  return valid - unfinishedLength(bytes.subarray(0, valid));
}

/**
 * A string that has no UTF-8 form cannot have come over a WebSocket.
 *
 * @throws {Fault} `lone_surrogate`.
 */
export function assertUtf8Form(text: string): void {
  const lone = attempt(() => assertWellFormed(text));
  if (lone === undefined) return;
  const at = text.search(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/);
  throw new Fault(lone.error, new TextEncoder().encode(text.slice(0, at)).length);
}

/** Text whose ends may lie inside characters: what is no text shows as U+FFFD. */
export function decodeLossily(bytes: Uint8Array): string {
  return lossy.decode(bytes);
}

/** Whether more bytes could make it valid. */
function isValidStart(bytes: Uint8Array): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: true });
    return true;
  } catch {
    return false;
  }
}

/** Bytes of a character at the end that is not whole; what precedes is valid. */
function unfinishedLength(bytes: Uint8Array): number {
  for (let length = 1; length <= Math.min(3, bytes.length); length++) {
    const byte = bytes[bytes.length - length] as number;
    if ((byte & 0xc0) === 0x80) continue;
    const needed = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return needed > length ? length : 0;
  }
  return 0;
}
