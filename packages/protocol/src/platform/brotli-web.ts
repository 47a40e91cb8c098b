import { concatBytes } from '../base/bytes.js';
import { ProtocolError } from '../base/errors.js';

/**
 * Brotli in WebAssembly, for platforms without a synchronous codec of their own. The module is a megabyte, so
 * it is fetched only when `loadBrotli` is called.
 */

/** The part of `brotli-wasm` that is used. */
export interface BrotliModule {
  compress(bytes: Uint8Array, options: { quality: number }): Uint8Array;
  readonly DecompressStream: new () => {
    /** Reads some of `input` and writes at most `outputSize` bytes. */
    decompress(
      input: Uint8Array,
      outputSize: number,
    ): { readonly code: number; readonly buf: Uint8Array; readonly input_offset: number; free(): void };
    free(): void;
  };
  readonly BrotliStreamResultCode: {
    readonly ResultSuccess: number;
    readonly NeedsMoreInput: number;
    readonly NeedsMoreOutput: number;
  };
}

// Each call copies its whole input into WebAssembly memory, including what it then leaves unread. Input and
// output therefore go in small pieces, which keeps the work linear and the module's memory small.
const INPUT_PIECE = 32 * 1024;
const OUTPUT_PIECE = 64 * 1024;

/** First bits of a stream in the "large window" format, which RFC 7932 section 9.1 declares invalid. */
const LARGE_WINDOW_MASK = 0x7f;
const LARGE_WINDOW = 0x11;

let brotli: BrotliModule | undefined;
let loading: Promise<void> | undefined;

/**
 * Fetches and compiles the module. Concurrent calls share one attempt; after a failure the next call tries
 * again.
 *
 * @param load imports the module; tests under Node pass the package's CommonJS build.
 * @throws {ProtocolError} `codec_not_loaded` if the package is not installed or its file cannot be fetched.
 */
export function loadBrotli(load: () => Promise<BrotliModule> = importBrotli): Promise<void> {
  if (brotli !== undefined) return Promise.resolve();
  loading ??= load().then(
    (module) => {
      brotli = module;
    },
    (cause: unknown) => {
      loading = undefined;
      if (cause instanceof ProtocolError) throw cause;
      throw new ProtocolError(
        'codec_not_loaded',
        'BROTLI and M2M need brotli_wasm_bg.wasm of brotli-wasm: copy it beside the scripts that the bundler wrote',
        { cause },
      );
    },
  );
  return loading;
}

async function importBrotli(): Promise<BrotliModule> {
  // The default export is a promise of the initialised module; the package's types do not say so.
  let imported: { readonly default: Promise<BrotliModule> };
  // Bundlers build without an optional package only if its `import` is directly within `try`.
  try {
    imported = (await import('brotli-wasm')) as unknown as typeof imported;
  } catch (cause) {
    throw new ProtocolError(
      'codec_not_loaded',
      'BROTLI and M2M need the package brotli-wasm in browsers: npm install brotli-wasm',
      { cause },
    );
  }
  return await imported.default;
}

export function brotliCompress(bytes: Uint8Array, quality: number): Uint8Array {
  return loaded().compress(bytes, { quality });
}

export function brotliDecompress(bytes: Uint8Array, maxSize: number): Uint8Array {
  const { DecompressStream, BrotliStreamResultCode: Code } = loaded();
  // The module would accept such a stream and allocate the window that it declares, up to 1 GiB.
  if (((bytes[0] ?? 0) & LARGE_WINDOW_MASK) === LARGE_WINDOW) {
    throw new ProtocolError('bad_compression', 'Brotli data declares a window over 16 MiB');
  }
  const stream = new DecompressStream();
  const pieces: Uint8Array[] = [];
  let size = 0;
  let offset = 0;
  try {
    for (;;) {
      const result = stream.decompress(bytes.subarray(offset, offset + INPUT_PIECE), OUTPUT_PIECE);
      const piece = result.buf;
      offset += result.input_offset;
      const code = result.code;
      result.free();
      size += piece.length;
      if (size > maxSize) {
        throw new ProtocolError(
          'decompressed_too_large',
          `Brotli data expands to more than ${maxSize} bytes`,
        );
      }
      if (piece.length > 0) pieces.push(piece);
      if (code === Code.ResultSuccess) break;
      if (code === Code.NeedsMoreInput && offset >= bytes.length) {
        throw new ProtocolError('bad_compression', 'Brotli data ends early');
      }
    }
  } catch (cause) {
    if (cause instanceof ProtocolError) throw cause;
    throw new ProtocolError('bad_compression', 'Brotli data is damaged', { cause });
  } finally {
    stream.free();
  }
  if (offset < bytes.length) {
    throw new ProtocolError('trailing_bytes', `${bytes.length - offset} bytes follow the Brotli stream`);
  }
  return concatBytes(pieces);
}

function loaded(): BrotliModule {
  if (brotli === undefined) {
    throw new ProtocolError('codec_not_loaded', 'Brotli is not loaded; await loadCodecs(["BROTLI"]) first');
  }
  return brotli;
}
