import { concatBytes, copyBytes } from '../../base/bytes.js';

/** Bytes of a piece: small enough for credit, and longer ones compress no better. */
const PIECE_SIZE = 64 * 1024;

/**
 * Cuts the chunks of a body into pieces: text as long as the body is UTF-8, because more codecs encode text than bytes.
 * Together the pieces are the body, byte for byte.
 */
export class Pieces {
  #isText: boolean;
  /** The beginning of a character. */
  #held: Uint8Array = EMPTY;

  /** @param isText whether the body is expected to be text. */
  constructor(isText: boolean) {
    this.#isText = isText;
  }

  *push(chunk: Uint8Array): Generator<string | Uint8Array> {
    for (let at = 0; at < chunk.length; at += PIECE_SIZE) {
      yield* this.#piece(chunk.subarray(at, at + PIECE_SIZE));
    }
  }

  /** The body is over. */
  *end(): Generator<string | Uint8Array> {
    if (this.#held.length > 0) yield this.#held;
    this.#held = EMPTY;
  }

  *#piece(chunk: Uint8Array): Generator<string | Uint8Array> {
    const bytes = this.#held.length === 0 ? chunk : concatBytes([this.#held, chunk]);
    this.#held = EMPTY;
    if (!this.#isText) return yield bytes;
    const end = bytes.length - incompleteLength(bytes);
    const text = textIfPossible(bytes.subarray(0, end));
    if (typeof text !== 'string') {
      this.#isText = false;
      return yield bytes;
    }
    this.#held = copyBytes(bytes.subarray(end));
    if (text !== '') yield text;
  }
}

const EMPTY = new Uint8Array(0);

/** Text if it is UTF-8. */
export function textIfPossible(bytes: Uint8Array): string | Uint8Array {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return bytes;
  }
}

/** How many of the last bytes begin a character that the next ones may complete. */
function incompleteLength(bytes: Uint8Array): number {
  for (let count = 1; count <= Math.min(3, bytes.length); count++) {
    const byte = bytes[bytes.length - count] ?? 0;
    if (byte < 0x80) return 0;
    if (byte >= 0xc0) return count < (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2) ? count : 0;
  }
  return 0;
}
