import { ProtocolError } from '../base/errors.js';
import { readZstdFrame } from './zstd-frame.js';

/**
 * zstd for every runtime: the one that Node brings since 22.15, else a WebAssembly build. Both read
 * and write the same frames, and both are handed only frames that `readZstdFrame` has measured.
 *
 * Dictionaries are raw content (RFC 8878, section 5: a dictionary without the dictionary magic):
 * any bytes that both ends have.
 */
export interface ZstdPort {
  /** Most bytes that `zstdCompress` takes at once. */
  readonly zstdMaxInput: number;

  /** Loads what there is to load; resolves at once where it is there. Safe to call repeatedly. */
  loadZstd(): Promise<void>;
  /** Whether dictionaries can be used, so that nothing has to be waited for. */
  isZstdLoaded(): boolean;

  /**
   * One zstd frame, with the content size in its header and no content checksum.
   *
   * @param level 1 to 19.
   * @param dictionary bytes that the other end has as well; fewer than 8 do nothing.
   * @throws {ProtocolError} `codec_not_loaded` before `loadZstd` has resolved, `message_too_large`
   * over `zstdMaxInput`, `internal` where zstd itself fails, for example for want of memory.
   */
  zstdCompress(bytes: Uint8Array, level: number, dictionary?: Uint8Array): Uint8Array;

  /**
   * Decompresses exactly one frame. Its size is checked before anything is allocated.
   *
   * @throws {ProtocolError} `decompressed_too_large`, `bad_compression`, `codec_not_loaded`.
   */
  zstdDecompress(bytes: Uint8Array, maxSize: number, dictionary?: Uint8Array): Uint8Array;
}

/** One implementation. Its errors are its own library's. */
interface Engine {
  /** Most bytes on either side of a call. */
  readonly maxSize: number;
  compress(bytes: Uint8Array, level: number, dictionary: Uint8Array | undefined): Uint8Array;
  /** Fails where there is more than `capacity`; a size that the frame declares is the capacity. */
  decompress(bytes: Uint8Array, capacity: number, dictionary: Uint8Array | undefined): Uint8Array;
  /** Whether `decompress` failed for want of capacity. */
  wasFull(error: unknown): boolean;
}

/**
 * @param runtime Node's `zlib` module, where there is one; used where it has zstd.
 */
export function createZstd(runtime?: object): ZstdPort {
  const native = runtime === undefined ? undefined : createNativeEngine(runtime);
  let loading: Promise<Engine> | undefined;
  let loaded: Engine | undefined;

  const engineFor = (dictionary: Uint8Array | undefined): Engine => {
    if (native !== undefined && (dictionary === undefined || native.takesDictionaries())) return native;
    if (loaded !== undefined) return loaded;
    throw new ProtocolError('codec_not_loaded', 'zstd is not loaded; await loadCodecs(["AVP"]) first');
  };

  return {
    zstdMaxInput: native?.maxSize ?? WASM_MAX_SIZE,

    isZstdLoaded: () => loaded !== undefined || (native?.takesDictionaries() ?? false),

    async loadZstd() {
      if (native?.takesDictionaries()) return;
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
          `zstd takes at most ${engine.maxSize} bytes at once in this runtime, not ${bytes.length}`,
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
        throw damaged(`declares ${size} bytes, its blocks hold ${frame.minSize} to ${frame.maxSize}`);
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
        throw damaged(`declares ${size} bytes and holds ${output.length}`);
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
 * `dictionary` as zstd takes it for raw content. Content that happens to begin with the magic
 * number of a trained dictionary would be parsed as one, so both ends leave its first byte out.
 */
function rawDictionary(dictionary: Uint8Array | undefined): Uint8Array | undefined {
  if (dictionary === undefined || dictionary.length < MIN_DICTIONARY_SIZE) return undefined;
  return DICTIONARY_MAGIC.every((byte, i) => dictionary[i] === byte) ? dictionary.subarray(1) : dictionary;
}

// --- WebAssembly ---------------------------------------------------------------------------------

/**
 * The WebAssembly heap grows to twice this at worst and never shrinks. It also cannot report that
 * it is full (at 2 GiB): it must never come near.
 */
const WASM_MAX_SIZE = 256 * 1024 * 1024;
/** `init` of the WebAssembly build never settles where its file cannot be fetched. */
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
  /** Node took zstd dictionaries later than zstd; before, it ignores them silently. */
  takesDictionaries(): boolean;
}

function createNativeEngine(runtime: object): NativeEngine | undefined {
  if (!('zstdCompressSync' in runtime && 'zstdDecompressSync' in runtime)) return undefined;
  const zlib = runtime as NodeZstd;
  let takesDictionaries: boolean | undefined;

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
        // Node refuses a limit of zero.
        maxOutputLength: Math.max(capacity, 1),
        ...(dictionary && { dictionary }),
      });
      return withoutBuffer(output);
    },

    wasFull: (error) => (error as { code?: unknown }).code === 'ERR_BUFFER_TOO_LARGE',

    takesDictionaries() {
      if (takesDictionaries === undefined) {
        const sample = Uint8Array.from({ length: 256 }, (_, i) => (i * 197) & 0xff);
        takesDictionaries = engine.compress(sample, 3, sample).length < sample.length / 2;
      }
      return takesDictionaries;
    },
  };
  return engine;
}

/** The same bytes as a plain `Uint8Array`: a `Buffer` slices differently. */
function withoutBuffer(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length);
}
