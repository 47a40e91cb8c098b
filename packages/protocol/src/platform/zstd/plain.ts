import { ProtocolError } from '../../base/errors.js';
import { LOADED_MAX_SIZE, type ZstdEngine } from '../zstd.js';

/**
 * Loads zstd in plain TypeScript, for pages: a content security policy that only allows their own scripts does
 * not allow WebAssembly, which also has ten times the size.
 *
 * @throws {ProtocolError} `codec_not_loaded`.
 */
export async function loadPlainEngine(): Promise<ZstdEngine> {
  try {
    const { compress, decompress, OutputFull } = await import('./engine.js');
    return {
      maxSize: LOADED_MAX_SIZE,
      compress,
      decompress,
      wasFull: (error) => error instanceof OutputFull,
    };
  } catch (cause) {
    throw new ProtocolError(
      'codec_not_loaded',
      'zstd could not be loaded; does the server serve every file that the bundler wrote?',
      { cause },
    );
  }
}
