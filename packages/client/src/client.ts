import {
  assertOptions,
  CLIENT_LIMITS,
  type ProtocolError,
  resolveLimits,
  sentenceOf,
  systemClock,
} from '@parlance/protocol/client';
import { withWebSocket } from '#web-socket';
import { resolveUrl } from './connection/address.js';
import { createBackoff } from './connection/backoff.js';
import { watchPage } from './connection/page-events.js';
import { modulesOf } from './modules.js';
import { open } from './opening.js';
import { loggerOf } from './session/logger.js';
import type { ClientModule, Setup, Tools } from './session/module.js';
import { type ClientOptions, KINDS } from './session/options.js';
import { type ClientSession, ClientUserSession, clientHostOf } from './session/session.js';

/**
 * Connects to a session server. Resolves when the session is established: on Node with its codecs and its vocabulary
 * loaded; in a page before, unless the session needs them for its first message.
 *
 * @param url `ws:` or `wss:`; `http:` and `https:` mean the same. A text without a path, such as `wss://app.example`, means `/session` there; in
 * a page, `/session` is that of its own server. Never put a secret into it.
 * @throws {ProtocolError} `invalid_option`; `connection_failed`; `rejected` with the REJECT of the server;
 * `bad_acceptance`; `timeout`; `unsupported` in a runtime without `crypto.getRandomValues`. The reason of the signal after an abort.
 */
export async function connect(url: string | URL, options: ClientOptions = {}): Promise<ClientSession> {
  try {
    return await openWithModules(url, options);
  } catch (error) {
    await sentenceOf(error);
    const isBare = !globalThis.crypto?.getRandomValues;
    if ((error as Partial<ProtocolError> | undefined)?.code !== 'invalid_option' && !isBare) throw error;
    throw (await import('./session/foreign-options.js')).explained(options, KINDS, error);
  }
}

async function openWithModules(url: string | URL, options: ClientOptions): Promise<ClientSession> {
  assertOptions(options, KINDS);
  const { transports, WebSocket } = options;
  const setup: Setup = {
    url: await resolveUrl(url),
    options: await withWebSocket(options),
    fallsBack: transports === undefined && (WebSocket === undefined || 'watchTransport' in WebSocket),
    limits: resolveLimits(options.limits, CLIENT_LIMITS),
    clock: systemClock,
    logger: loggerOf(options),
    tools: TOOLS,
  };
  const asked = modulesOf(options);
  const openWith = async (index: number, modules: readonly ClientModule[]): Promise<ClientSession> => {
    const code = asked[index];
    if (code === undefined) return await open(setup, modules);
    const module = await (await code.load()).createModule(setup);
    const next = (more: ClientModule = {}) => openWith(index + 1, [...modules, module, more]);
    return await (module.open?.(next) ?? next());
  };
  return await openWith(0, []);
}

const TOOLS: Tools = {
  connect: async (url, options) => clientHostOf(await connect(url, options)),
  createSession: (host) => new ClientUserSession(host),
  hostOf: clientHostOf,
  createBackoff,
  watchPage,
};
