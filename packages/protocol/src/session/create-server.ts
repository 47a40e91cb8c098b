import { ProtocolError } from '../base/errors.js';
import { ServerCore } from './server-core.js';
import { optionsFor, readSnapshot } from './snapshot.js';
import type { ServerSessionCore, SessionOptions } from './types.js';

/** Creates the server's end of a session. */
export function createServerSession(options: SessionOptions): ServerSessionCore {
  return new ServerCore(options);
}

/**
 * Continues the session of another process, which must not use it any more. The driver brings the connection: the one
 * that the session had, or after `handleDisconnected` another one that resumes it.
 *
 * @param options of a server. The session keeps its agreement, even if this server makes another one with new clients.
 * @param snapshot what {@link ServerSessionCore.snapshot} has returned.
 * @param now clock reading of this process.
 * @throws {ProtocolError} `unknown_version` for a format that this build does not read; `truncated`, `bad_checksum`,
 * `bad_message`, `bad_frame`, `message_too_large` and others for a snapshot that is damaged or beyond the limits;
 * `unsupported` if this server cannot keep the agreement; `codec_not_loaded` if the code of context is not loaded;
 * `invalid_argument` for the options of a client.
 */
export function restoreSession(
  options: SessionOptions,
  snapshot: Uint8Array,
  now: number,
): ServerSessionCore {
  if (options.role !== 'server')
    throw new ProtocolError('invalid_argument', 'only a server restores sessions');
  const state = readSnapshot(snapshot, options);
  const core = new ServerCore(optionsFor(state.role.answer, options));
  core.restore(state, now);
  return core;
}
