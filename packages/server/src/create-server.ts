import type { Server } from './api.js';
import type { ServerOptions } from './options.js';
import { SessionServer } from './server.js';

/**
 * Creates a session server; `listen` or `attach` opens it.
 *
 * @typeParam Data of `session.data`: what `authenticate` returns as `data`. Write `authenticate` before the handlers, so
 * that the compiler finds it there.
 * @throws {ProtocolError} `invalid_option`.
 */
export function createServer<Data = unknown>(options: ServerOptions<Data> = {}): Server<Data> {
  // The type of the data exists for the application alone.
  return new SessionServer(options as ServerOptions) as Server<Data>;
}
