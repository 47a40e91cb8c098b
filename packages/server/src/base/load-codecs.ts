import { type Capabilities, Extension, type Logger, loadCodecs } from '@parlance/protocol';
import { loggable, toProtocolError } from '@parlance/protocol/internal';

/**
 * Loads the codecs that a server has.
 *
 * @returns its capabilities; without context if zstd cannot be loaded: bundlers leave its WebAssembly file behind,
 * and only newer versions of Node have a zstd of their own.
 * @throws {ProtocolError} `codec_not_loaded`.
 */
export async function loadCapabilities(capabilities: Capabilities, logger: Logger): Promise<Capabilities> {
  const { algorithms, extensions } = capabilities;
  const { [Extension.CONTEXT]: context, ...others } = extensions;
  await loadCodecs(algorithms);
  if (context === undefined) return capabilities;
  try {
    await loadCodecs(['CONTEXT']);
    return capabilities;
  } catch (error) {
    const { code } = toProtocolError(error, 'internal', '');
    if (code !== 'codec_not_loaded') throw error;
    logger.warn(
      { event: 'server.no_context', err: loggable(error) },
      'zstd could not be loaded, so no session of this server has the extension context',
    );
    return { ...capabilities, extensions: Object.freeze(others) };
  }
}
