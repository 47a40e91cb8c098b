import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { CloseCode, type RejectCode, Subprotocol } from '@parlance/protocol';
import { isLoopback } from './addresses.js';

/** Who may come in: decisions on what an upgrade and a HELLO state, without doing anything. */

/** What is known about a client that wants a session. */
export interface Credentials {
  /** From HELLO, or from an `Authorization: Bearer` header. */
  readonly token: string | undefined;
  /** The `Origin` header; browsers always send it. */
  readonly origin: string | undefined;
  /** Stated in HELLO; unproved until `authenticate` confirms it. */
  readonly agentId: string | undefined;
  /** The client's address, behind the trusted proxies. */
  readonly ip: string;
  /** Of the upgrade request. */
  readonly headers: IncomingHttpHeaders;
}

export interface Identity {
  /** Who this is; sessions of one principal may resume each other's connections. */
  readonly principal: string;
  readonly agentId?: string | undefined;
  /** Unix milliseconds at which the credentials end. @default Infinity, which is never */
  readonly expiresAt?: number | undefined;
}

/** Returns who this is; `null`, `undefined` or a throw refuses. */
export type Authenticate = (
  credentials: Credentials,
) => Identity | null | undefined | Promise<Identity | null | undefined>;

/** A refusal that the client is told in REJECT, with the close code that follows. */
export interface Refusal {
  readonly code: RejectCode;
  readonly message: string;
  readonly closeCode: CloseCode;
  /** @default what the close code says */
  readonly retryable?: boolean | undefined;
  readonly retryAfterMs?: number | undefined;
}

/** The first subprotocol of the client's list that is spoken here. */
export function chooseSubprotocol(header: string | undefined): Subprotocol | undefined {
  const offered = (header ?? '').split(',', 32).map((name) => name.trim());
  const known: readonly string[] = Object.values(Subprotocol);
  return offered.find((name) => known.includes(name)) as Subprotocol | undefined;
}

/** The path of a request, without its query; a malformed one has none. */
export function pathOf(request: IncomingMessage): string | undefined {
  const url = request.url ?? '';
  return url.startsWith('/') ? url.split('?', 1)[0] : undefined;
}

/**
 * Refuses pages of other origins, on loopback too: any web page can reach a local port. A client that
 * sends no `Origin` is no browser.
 *
 * @param allowed origins as browsers write them (`https://app.example`), or `*` for any.
 */
export function checkOrigin(request: IncomingMessage, allowed: readonly string[]): Refusal | undefined {
  const { origin, host } = request.headers;
  if (origin === undefined || allowed.includes('*') || allowed.includes(origin)) return undefined;
  const originHost = hostOf(origin);
  if (originHost !== undefined && originHost === host?.toLowerCase()) return undefined;
  return {
    code: 'SECURITY_POLICY',
    message: `origin ${origin.slice(0, 100)} is not admitted; add it to the server's origins`,
    closeCode: CloseCode.FORBIDDEN,
  };
}

/**
 * A server on loopback answers to loopback names only, so that a page whose name was re-pointed at
 * 127.0.0.1 (DNS rebinding) is refused although its origin equals its host.
 */
export function checkHost(request: IncomingMessage, allowed: readonly string[]): Refusal | undefined {
  if (!isLoopback(request.socket.localAddress)) return undefined;
  const host = request.headers.host?.toLowerCase();
  const name = host === undefined ? undefined : hostOf(`http://${host}`)?.replace(/:\d+$/, '');
  if (name === undefined || LOOPBACK_NAMES.has(name) || name.endsWith('.localhost')) return undefined;
  if (allowed.includes('*') || allowed.some((origin) => hostOf(origin) === host)) return undefined;
  return {
    code: 'SECURITY_POLICY',
    message: 'this server listens on loopback and was asked under another name',
    closeCode: CloseCode.FORBIDDEN,
  };
}

const LOOPBACK_NAMES: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]']);

/** The token of an `Authorization: Bearer` header. */
export function bearerToken(headers: IncomingHttpHeaders): string | undefined {
  const [scheme, token, ...rest] = (headers.authorization ?? '').split(' ');
  return scheme?.toLowerCase() === 'bearer' && token && rest.length === 0 ? token : undefined;
}

/**
 * The refusal of a client of whom the server does not know who it is.
 *
 * @param token what the client presented.
 * @param isLocal no others are served than clients on the server's own machine.
 */
export function unauthenticated(token: string | undefined, isLocal: boolean): Refusal {
  const presented = token === undefined ? 'no token was presented' : 'the token is wrong or expired';
  return {
    code: 'SECURITY_POLICY',
    message: isLocal
      ? 'this server serves its own machine only; it has no authenticate option'
      : `credentials are needed: ${presented}`,
    closeCode: CloseCode.UNAUTHENTICATED,
  };
}

/** Host and port of a URL, lower-cased, with default ports left out as browsers do. */
function hostOf(url: string): string | undefined {
  try {
    return new URL(url).host;
  } catch {
    return undefined;
  }
}
