import { ProtocolError } from '../../base/errors.js';
import { LOADED_MAX_SIZE, type ZstdEngine } from '../zstd.js';

/** `init` of the WebAssembly build never settles if its file cannot be fetched. */
const WASM_LOAD_TIMEOUT_MS = 30_000;
/** zstd's error number for an output buffer that is too small; the library reports −70. */
const DESTINATION_TOO_SMALL = /-70$/;

declare function setTimeout(callback: () => void, ms: number): unknown;
declare function clearTimeout(timer: unknown): void;

/**
 * Loads zstd in WebAssembly.
 *
 * @throws {ProtocolError} `codec_not_loaded`.
 */
export async function loadWasmEngine(): Promise<ZstdEngine> {
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
      'zstd could not be loaded; is @bokuweb/zstd-wasm installed with its zstd.wasm?',
      { cause },
    );
  } finally {
    clearTimeout(timer);
  }
}

function createWasmEngine(zstd: typeof import('@bokuweb/zstd-wasm')): ZstdEngine {
  // Contexts are reused: creating one costs more than compressing a chat message.
  let compressor: number | undefined;
  let decompressor: number | undefined;
  return {
    // The WebAssembly heap grows to twice this at worst and never shrinks. It cannot report that it is full (at
    // 2 GiB), so it must never come close.
    maxSize: LOADED_MAX_SIZE,

    compress(bytes, level, dictionary) {
      if (dictionary === undefined) return zstd.compress(bytes, level);
      compressor ??= zstd.createCCtx() as number;
      return zstd.compressUsingDict(compressor, bytes, dictionary, levelFor(bytes, dictionary, level));
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

/** The highest level at which a dictionary is read quickly. */
const QUICK_LEVEL = 3;
/** Bytes with their dictionary up to which a higher level is worth its time, and the same if most of them is new. */
const SMALL = 48 * 1024;
const MOSTLY_NEW = 72 * 1024;

/** From level 4 on, reading the dictionary takes four times as long, for a tenth fewer bytes. */
function levelFor(bytes: Uint8Array, dictionary: Uint8Array, level: number): number {
  const size = bytes.length + dictionary.length;
  const isQuick = size <= (bytes.length * 4 >= dictionary.length * 3 ? MOSTLY_NEW : SMALL);
  return isQuick ? level : Math.min(level, QUICK_LEVEL);
}
