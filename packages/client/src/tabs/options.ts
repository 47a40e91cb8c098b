import type { CapabilityOptions, Limits, Subprotocol, Timers } from '@parlance/protocol';
import { assertOptions, ProtocolError } from '@parlance/protocol/client';
import type { ReconnectOptions } from '../connection/backoff.js';
import type { TransportName } from '../connection/transport.js';
import type { SharingOptions } from '../session/options.js';

/** The options that the tabs of a session have in common. They cross to its host. */
export interface SharedOptions
  extends Pick<CapabilityOptions, 'algorithms' | 'encodings' | 'extensions' | 'securityScanning'> {
  readonly limits?: Partial<Record<keyof Limits, number | undefined>> | undefined;
  readonly timers?: Partial<Record<keyof Timers, number | undefined>> | undefined;
  readonly reconnect?: ReconnectOptions | boolean | undefined;
  readonly subprotocol?: Subprotocol | undefined;
  readonly earlyHello?: boolean | undefined;
  readonly transports?: readonly TransportName[] | undefined;
  readonly waitForServer?: boolean | undefined;
}

const SHARED: Readonly<Record<keyof SharedOptions, true>> = {
  algorithms: true,
  encodings: true,
  extensions: true,
  securityScanning: true,
  limits: true,
  timers: true,
  reconnect: true,
  subprotocol: true,
  earlyHello: true,
  transports: true,
  waitForServer: true,
};

/** Each tab has its own: they are called or used in the tab. */
const OWN: readonly string[] = ['shared', 'token', 'signal', 'logger', 'onError', 'traceparent', 'modules'];

/** Why an option cannot be shared. */
const REFUSED: Readonly<Record<string, string>> = {
  onRequest: 'the server cannot tell the tabs apart, so a shared session answers no requests',
  onFetch: 'the server cannot tell the tabs apart, so a shared session answers no requests',
  batch: 'it joins the parts of replies to requests of the server, which a shared session does not answer',
  agent: 'an agent answers requests, which a shared session does not',
  agentId: 'an agent answers requests, which a shared session does not',
  avp: 'tensors are not sent over a shared session',
  transfers: 'a shared session receives tensors as a whole',
  WebSocket: 'a class cannot be passed to the worker, which uses that of the browser',
  security: 'its key would have to leave the page',
  store: 'a session that is resumed after a reload belongs to one tab',
};

/**
 * The options that cross to the host of the session.
 *
 * @throws {ProtocolError} `invalid_option` for an option that cannot be shared.
 */
export function sharedOptionsOf(options: SharedOptions): SharedOptions {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  for (const [name] of given) {
    if (Object.hasOwn(SHARED, name) || OWN.includes(name)) continue;
    const reason = REFUSED[name] ?? 'it is not known how to share it';
    throw new ProtocolError('invalid_option', `${name}: it cannot be used together with shared: ${reason}`);
  }
  return Object.fromEntries(given.filter(([name]) => Object.hasOwn(SHARED, name)));
}

/** @throws {ProtocolError} `invalid_option`. */
export function resolveSharing(shared: true | SharingOptions): { readonly worker: URL | undefined } {
  if (shared === true) return { worker: undefined };
  const { worker } = shared;
  if (worker instanceof URL) return { worker };
  assertOptions(shared, { worker: 'text' }, 'shared');
  if (worker === undefined) return { worker };
  const { location } = globalThis as { location?: { href: string } };
  try {
    // The base is used only outside a page, and a runtime without pages has no workers.
    return { worker: new URL(worker, location?.href ?? 'http://localhost/') };
  } catch (cause) {
    throw new ProtocolError('invalid_option', 'shared.worker: the URL of a script is expected', { cause });
  }
}
