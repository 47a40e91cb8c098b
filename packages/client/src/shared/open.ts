import { type ClientSession, clientHostOf } from '../session.js';
import type { OpenSession } from './hub.js';
import type { SharedOptions } from './options.js';

/** The `connect` of this package: hosts open their session with it, without sharing. */
export type Connect = (
  url: string,
  options: SharedOptions & {
    readonly token?: string | (() => string | Promise<string>) | undefined;
    readonly signal?: AbortSignal | undefined;
    readonly logger?: Parameters<OpenSession>[1]['logger'] | undefined;
  },
) => Promise<ClientSession>;

/** Opens the session of a hub. */
export function opener(connect: Connect): OpenSession {
  return async ({ url, options, token }, { askToken, logger, signal }) =>
    clientHostOf(await connect(url, { ...options, token: askToken ?? token, logger, signal }));
}
