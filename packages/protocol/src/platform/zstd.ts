import { ProtocolError } from '../base/errors.js';
import { readZstdFrame } from './zstd-frame.js';

/**
 * zstd for every runtime: Node's own since 22.15, a WebAssembly build in older versions, and plain TypeScript in
 * browsers. All read and write the same frames, and they only get frames that `readZstdFrame` has checked.
 *
 * Dictionaries are raw content (RFC 8878, section 5: a dictionary without the dictionary magic):
 * any bytes that both ends have.
 */
export interface ZstdPort {
  /** The most bytes that `zstdCompress` accepts per call. */
  readonly zstdMaxInput: number;

  /**
   * Loads the implementation if it is not loaded yet. Safe to call repeatedly; after a failure the next call
   * tries again.
   *
   * @throws {ProtocolError} `codec_not_loaded` if it cannot be loaded.
   */
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

/** One implementation. It throws errors of its own. */
export interface ZstdEngine {
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

/** An implementation that is part of the runtime. */
export interface NativeZstdEngine extends ZstdEngine {
  /** Node got zstd dictionaries later than zstd; older versions ignore the option silently. */
  supportsDictionaries(): boolean;
}

/** The most bytes per call of an implementation that has to be loaded. */
export const LOADED_MAX_SIZE = 256 * 1024 * 1024;

/**
 * @param load loads the implementation for all that `native` cannot do; its `maxSize` is
 * {@link LOADED_MAX_SIZE}.
 * @param native the implementation of the runtime, if it has one.
 */
export function createZstd(load: () => Promise<ZstdEngine>, native?: NativeZstdEngine): ZstdPort {
  let loading: Promise<ZstdEngine> | undefined;
  let loaded: ZstdEngine | undefined;

  const engineFor = (dictionary: Uint8Array | undefined): ZstdEngine => {
    if (native !== undefined && (dictionary === undefined || native.supportsDictionaries())) return native;
    if (loaded !== undefined) return loaded;
    throw new ProtocolError('codec_not_loaded', 'zstd is not loaded; await loadCodecs(["AVP"]) first');
  };

  return {
    zstdMaxInput: native?.maxSize ?? LOADED_MAX_SIZE,

    isZstdLoaded: () => loaded !== undefined || (native?.supportsDictionaries() ?? false),

    async loadZstd() {
      if (native?.supportsDictionaries()) return;
      loading ??= load();
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
