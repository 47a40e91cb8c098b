import type { ClientSessionHost } from '../session/session.js';
import type { OpenSession } from './hub.js';
import type { SharedOptions } from './options.js';

/** `connect` without sharing, as a host uses it. */
export type Connect = (
  url: string,
  options: SharedOptions & {
    readonly token: string | (() => Promise<string>) | undefined;
    readonly signal: AbortSignal;
    readonly logger: Parameters<OpenSession>[1]['logger'];
  },
) => Promise<ClientSessionHost>;

/** Opens the session of a hub. */
export function opener(connect: Connect): OpenSession {
  return ({ url, options, token }, { askToken, logger, signal }) =>
    connect(url, { ...options, token: askToken ?? token, logger, signal });
}
