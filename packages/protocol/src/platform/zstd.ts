import { ProtocolError } from '../base/errors.js';
import { readZstdFrame } from './zstd-frame.js';

/**
 * zstd for every runtime: Node's own since 22.15, otherwise a WebAssembly build. Both read and write the same
 * frames, and both only get frames that `readZstdFrame` has checked.
 *
 * Dictionaries are raw content (RFC 8878, section 5: a dictionary without the dictionary magic):
 * any bytes that both ends have.
 */
export interface ZstdPort {
  /** The most bytes that `zstdCompress` accepts per call. */
  readonly zstdMaxInput: number;

  /** Loads the WebAssembly build if it is needed and not loaded yet. Safe to call repeatedly. */
  loadZstd(): Promise<void>;
  /** Whether dictionaries can be used now, without a call of `loadZstd`. */
  isZstdLoaded(): boolean;

  /**
   * One zstd frame, with the content size in its header and no content checksum.
   *
   * @param level 1 to 19.
   * @param dictionary bytes that the other end has as well; a dictionary of fewer than 8 is ignored.
   * @throws {ProtocolError} `codec_not_loaded` before `loadZstd` has resolved, `message_too_large` over
   * `zstdMaxInput`, `internal` if zstd itself fails, for example because memory runs out.
   */
  zstdCompress(bytes: Uint8Array, level: number, dictionary?: Uint8Array): Uint8Array;

  /**
   * Decompresses exactly one frame. Its size is checked before anything is allocated.
   *
   * @throws {ProtocolError} `decompressed_too_large`, `bad_compression`, `codec_not_loaded`.
   */
  zstdDecompress(bytes: Uint8Array, maxSize: number, dictionary?: Uint8Array): Uint8Array;
}

/** One implementation. It throws the errors of its own library. */
interface Engine {
  /** The most bytes of input or output per call. */
  readonly maxSize: number;
  compress(bytes: Uint8Array, level: number, dictionary: Uint8Array | undefined): Uint8Array;
  /**
   * Fails if the content is larger than `capacity`, which is the size that the frame declares, if it does.
   */
  decompress(bytes: Uint8Array, capacity: number, dictionary: Uint8Array | undefined): Uint8Array;
  /** Whether `decompress` failed because `capacity` was too small. */
  wasFull(error: unknown): boolean;
}

/** @param runtime Node's `zlib` module, if there is one; used if it has zstd. */
export function createZstd(runtime?: object): ZstdPort {
  const native = runtime === undefined ? undefined : createNativeEngine(runtime);
  let loading: Promise<Engine> | undefined;
  let loaded: Engine | undefined;

  const engineFor = (dictionary: Uint8Array | undefined): Engine => {
    if (native !== undefined && (dictionary === undefined || native.supportsDictionaries())) return native;
    if (loaded !== undefined) return loaded;
    throw new ProtocolError('codec_not_loaded', 'zstd is not loaded; await loadCodecs(["AVP"]) first');
  };

  return {
    zstdMaxInput: native?.maxSize ?? WASM_MAX_SIZE,

    isZstdLoaded: () => loaded !== undefined || (native?.supportsDictionaries() ?? false),

    async loadZstd() {
      if (native?.supportsDictionaries()) return;
      loading ??= loadWasmEngine();
      try {
        loaded = await loading;
      } catch (error) {
        loading = undefined;
        throw error;
      }
    },

    zstdCompress(bytes, level, dictionary) {
      const content = rawDictionary(dictionary);
      const engine = engineFor(content);
      if (bytes.length > engine.maxSize) {
        throw new ProtocolError(
          'message_too_large',
          `zstd accepts at most ${engine.maxSize} bytes per call in this runtime, not ${bytes.length}`,
        );
      }
      try {
        return engine.compress(bytes, level, content);
      } catch (cause) {
        throw new ProtocolError('internal', 'zstd cannot compress', { cause });
      }
    },

    zstdDecompress(bytes, maxSize, dictionary) {
      const content = rawDictionary(dictionary);
      const engine = engineFor(content);
      const frame = readZstdFrame(bytes);
      const size = frame.contentSize;
      if ((size ?? frame.minSize) > maxSize) {
        throw tooLarge(`zstd data holds ${size ?? `at least ${frame.minSize}`} bytes, more than ${maxSize}`);
      }
      if (size !== undefined && (size < frame.minSize || size > frame.maxSize)) {
        throw damaged(`declares ${size} bytes, but its blocks hold ${frame.minSize} to ${frame.maxSize}`);
      }
      const capacity = size ?? Math.min(frame.maxSize, maxSize);
      if (capacity > engine.maxSize || bytes.length > engine.maxSize) {
        throw tooLarge(`zstd data may hold ${capacity} bytes, more than this runtime's ${engine.maxSize}`);
      }
      let output: Uint8Array;
      try {
        output = engine.decompress(bytes, capacity, content);
      } catch (cause) {
        if (size === undefined && engine.wasFull(cause)) {
          throw tooLarge(`zstd data holds more than ${capacity} bytes`, cause);
        }
        throw damaged('is damaged', cause);
      }
      if (size !== undefined && output.length !== size) {
        throw damaged(`declares ${size} bytes, but holds ${output.length}`);
      }
      return output;
    },
  };
}

function tooLarge(message: string, cause?: unknown): ProtocolError {
  return new ProtocolError('decompressed_too_large', message, { cause });
}

function damaged(what: string, cause?: unknown): ProtocolError {
  return new ProtocolError('bad_compression', `zstd data ${what}`, { cause });
}

const DICTIONARY_MAGIC = [0x37, 0xa4, 0x30, 0xec] as const;
const MIN_DICTIONARY_SIZE = 8;

/**
 * `dictionary` in a form that zstd reads as raw content. Content that happens to begin with the magic number
 * of a trained dictionary would be parsed as one, so both ends leave out its first byte.
 */
function rawDictionary(dictionary: Uint8Array | undefined): Uint8Array | undefined {
  if (dictionary === undefined || dictionary.length < MIN_DICTIONARY_SIZE) return undefined;
  return DICTIONARY_MAGIC.every((byte, i) => dictionary[i] === byte) ? dictionary.subarray(1) : dictionary;
}

// --- WebAssembly ---------------------------------------------------------------------------------

/**
 * The WebAssembly heap grows to twice this at worst and never shrinks. It cannot report that it is full (at 2
 * GiB), so it must never come close.
 */
const WASM_MAX_SIZE = 256 * 1024 * 1024;
/** `init` of the WebAssembly build never settles if its file cannot be fetched. */
const WASM_LOAD_TIMEOUT_MS = 30_000;
/** zstd's error number for an output buffer that is too small; the library reports −70. */
const DESTINATION_TOO_SMALL = /-70$/;

declare function setTimeout(callback: () => void, ms: number): unknown;
declare function clearTimeout(timer: unknown): void;

async function loadWasmEngine(): Promise<Engine> {
  let timer: unknown;
  try {
    const zstd = await import('@bokuweb/zstd-wasm');
    const timeout = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error('zstd.wasm did not load in time')), WASM_LOAD_TIMEOUT_MS);
    });
    await Promise.race([zstd.init(), timeout]);
    return createWasmEngine(zstd);
  } catch (cause) {
    throw new ProtocolError(
      'codec_not_loaded',
      'zstd could not be loaded; does the bundler serve zstd.wasm of @bokuweb/zstd-wasm?',
      { cause },
    );
  } finally {
    clearTimeout(timer);
  }
}

function createWasmEngine(zstd: typeof import('@bokuweb/zstd-wasm')): Engine {
  // Contexts are reused: creating one costs more than compressing a chat message.
  let compressor: number | undefined;
  let decompressor: number | undefined;
  return {
    maxSize: WASM_MAX_SIZE,

    compress(bytes, level, dictionary) {
      if (dictionary === undefined) return zstd.compress(bytes, level);
      compressor ??= zstd.createCCtx() as number;
      return zstd.compressUsingDict(compressor, bytes, dictionary, level);
    },

    decompress(bytes, capacity, dictionary) {
      const options = { defaultHeapSize: capacity };
      if (dictionary === undefined) return zstd.decompress(bytes, options);
      decompressor ??= zstd.createDCtx() as number;
      return zstd.decompressUsingDict(decompressor, bytes, dictionary, options);
    },

    wasFull: (error) => error instanceof Error && DESTINATION_TOO_SMALL.test(error.message),
  };
}

// --- Node ----------------------------------------------------------------------------------------

interface NodeZstd {
  zstdCompressSync(bytes: Uint8Array, options: object): Uint8Array;
  zstdDecompressSync(bytes: Uint8Array, options: object): Uint8Array;
  readonly constants: { readonly ZSTD_c_compressionLevel: number };
}

interface NativeEngine extends Engine {
  /** Node got zstd dictionaries later than zstd; older versions ignore the option silently. */
  supportsDictionaries(): boolean;
}

function createNativeEngine(runtime: object): NativeEngine | undefined {
  if (!('zstdCompressSync' in runtime && 'zstdDecompressSync' in runtime)) return undefined;
  const zlib = runtime as NodeZstd;
  let supportsDictionaries: boolean | undefined;

  const engine: NativeEngine = {
    maxSize: 0x7fffffff,

    compress(bytes, level, dictionary) {
      const output = zlib.zstdCompressSync(bytes, {
        params: { [zlib.constants.ZSTD_c_compressionLevel]: level },
        pledgedSrcSize: bytes.length,
        ...(dictionary && { dictionary }),
      });
      return withoutBuffer(output);
    },

    decompress(bytes, capacity, dictionary) {
      const output = zlib.zstdDecompressSync(bytes, {
        // Node refuses a limit of 0.
        maxOutputLength: Math.max(capacity, 1),
        ...(dictionary && { dictionary }),
      });
      return withoutBuffer(output);
    },

    wasFull: (error) => (error as { code?: unknown }).code === 'ERR_BUFFER_TOO_LARGE',

    supportsDictionaries() {
      if (supportsDictionaries === undefined) {
        const sample = Uint8Array.from({ length: 256 }, (_, i) => (i * 197) & 0xff);
        supportsDictionaries = engine.compress(sample, 3, sample).length < sample.length / 2;
      }
      return supportsDictionaries;
    },
  };
  return engine;
}

/** The same bytes as a plain `Uint8Array`: a `Buffer` slices differently. */
function withoutBuffer(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length);
}
