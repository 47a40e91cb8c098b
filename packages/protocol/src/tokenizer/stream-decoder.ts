import { ProtocolError } from '../base/errors.js';
import { DEFAULT_LIMITS } from '../base/limits.js';
import { decodeUtf8 } from '../base/text.js';
import type { DecodeOptions, TokenDecoder } from './decode.js';

/**
 * Decodes a text whose tokens arrive in pieces. A token may end inside a character; the decoder holds its
 * bytes back until the rest has arrived. So every string is well-formed, and together they are the result of
 * decoding all tokens at once. A decoder serves one stream and cannot be used after an error.
 */
export interface StreamDecoder {
  /** Bytes that the tokens so far stand for. */
  readonly length: number;

  /**
   * The text that these tokens complete, possibly empty.
   *
   * @throws {ProtocolError} `bad_token`, `bad_utf8`, `decompressed_too_large`; every later call throws the
   * same error.
   */
  push(ids: ArrayLike<number>): string;

  /**
   * Ends the text.
   *
   * @throws {ProtocolError} `bad_utf8` if it ends inside a character, or the error of an earlier `push`.
   */
  end(): void;
}

/** An incomplete character has at most three bytes. */
const MAX_HELD = 3;

export interface StreamDecodeOptions extends DecodeOptions {
  /** The beginning of a character that tokens before the first ones ended in, at most 3 bytes. @default none */
  readonly held?: Uint8Array | undefined;
}

export function createStreamDecoder(decoder: TokenDecoder, options: StreamDecodeOptions = {}): StreamDecoder {
  const held = new Uint8Array(MAX_HELD);
  let heldLength = Math.min(MAX_HELD, options.held?.length ?? 0);
  if (options.held !== undefined) held.set(options.held.subarray(0, heldLength));
  const most = options.maxBytes ?? DEFAULT_LIMITS.maxMessageSize;
  let left = most;
  let failure: unknown;

  function guarded<T>(step: () => T): T {
    if (failure !== undefined) throw failure;
    try {
      return step();
    } catch (error) {
      failure = error;
      throw error;
    }
  }

  return {
    get length() {
      return most - left;
    },

    push: (ids) =>
      guarded(() => {
        const length = decoder.length(ids, { allowSpecial: options.allowSpecial, maxBytes: left });
        left -= length;
        const bytes = new Uint8Array(heldLength + length);
        bytes.set(held.subarray(0, heldLength));
        decoder.write(ids, bytes, heldLength);
        heldLength = incompleteLength(bytes);
        const complete = bytes.length - heldLength;
        held.set(bytes.subarray(complete));
        return decodeUtf8(bytes.subarray(0, complete));
      }),

    end: () =>
      guarded(() => {
        if (heldLength > 0) {
          throw new ProtocolError('bad_utf8', `the text ends ${heldLength} bytes into a character`);
        }
      }),
  };
}

/** The number of bytes at the end that begin a character without completing it. */
export function incompleteLength(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(MAX_HELD, bytes.length); back++) {
    const byte = bytes[bytes.length - back] as number;
    if ((byte & 0xc0) === 0x80) continue;
    const width = byte < 0xc0 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    return width > back ? back : 0;
  }
  return 0;
}
