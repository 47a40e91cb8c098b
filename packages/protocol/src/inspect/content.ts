import { assertWellFormed, decodeUtf8 } from '../base/text.js';
import { catchFault, Fault, type Report } from './report.js';

/** Decoded content, and the offset of invalid UTF-8, which the strict decoder does not report. */

const lossy = new TextDecoder('utf-8', { ignoreBOM: true });

/**
 * Records the size of a body's content and, if it is text, its beginning.
 *
 * @param isPart the content may begin or end inside a character.
 */
export function showContent(report: Report, content: Uint8Array, isPart: boolean): void {
  report.content = content.length;
  if (isPart) report.preview = report.show(decodeLossily(content));
  else {
    catchFault(() => {
      report.preview = report.show(decodeUtf8(content));
    });
  }
}

/** Decodes text that may begin or end inside a character; invalid bytes become U+FFFD. */
export function decodeLossily(bytes: Uint8Array): string {
  return lossy.decode(bytes);
}

/**
 * A string with a lone surrogate has no UTF-8 form, so it cannot have come over a WebSocket.
 *
 * @throws {Fault} `lone_surrogate`.
 */
export function assertUtf8Form(text: string): void {
  const lone = catchFault(() => assertWellFormed(text));
  if (lone === undefined) return;
  const at = text.search(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/);
  throw new Fault(lone.error, new TextEncoder().encode(text.slice(0, at)).length);
}

/** Offset of the first byte that is not part of a character; the length if all bytes are valid. */
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

/** Whether more bytes could make it valid. */
function isValidStart(bytes: Uint8Array): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: true });
    return true;
  } catch {
    return false;
  }
}

/** Bytes of an incomplete character at the end; everything before it must be valid. */
function unfinishedLength(bytes: Uint8Array): number {
  for (let length = 1; length <= Math.min(3, bytes.length); length++) {
    const byte = bytes[bytes.length - length] as number;
    if ((byte & 0xc0) === 0x80) continue;
    const needed = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return needed > length ? length : 0;
  }
  return 0;
}
