import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { TLSSocket } from 'node:tls';
import { CloseCode, type RejectCode, Subprotocol } from '@parlance/protocol';
import { isLoopback, isTrustedProxy, type TrustedProxies } from '../http/addresses.js';

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

/** The names and origins that are a server's own, and the proxies before it. */
export interface SiteOptions {
  /** Origins as browsers write them (`https://app.example`), or `*` for any. */
  readonly origins: readonly string[];
  /** Names of the server (`app.example`, `app.example:8443`); without any, every name is its own. */
  readonly hosts: readonly string[];
  readonly trustedProxies: TrustedProxies;
}

/**
 * Refuses pages of other origins, on loopback too: any web page can reach a local port. A client that
 * sends no `Origin` is not a browser. The server's own origin has the server's own scheme, where the server
 * can know it: a page of `http://` may come from any machine on the way.
 */
export function checkOrigin(
  request: IncomingMessage,
  { origins, trustedProxies }: SiteOptions,
): Refusal | undefined {
  const { origin, host } = request.headers;
  if (origin === undefined || origins.includes('*') || origins.includes(origin)) return undefined;
  const scheme = schemeOf(request, trustedProxies);
  const isOwn = hostOf(origin) !== undefined && hostOf(origin) === host?.toLowerCase();
  if (isOwn && (scheme === undefined || new URL(origin).protocol === scheme)) return undefined;
  return {
    code: 'SECURITY_POLICY',
    message: `origin ${origin.slice(0, 100)} is not admitted; add it to the server's origins`,
    closeCode: CloseCode.FORBIDDEN,
  };
}

/**
 * The scheme that a page has whose server this is: `undefined` behind a proxy that is not listed, which
 * may speak TLS or not.
 */
function schemeOf({ socket, headers }: IncomingMessage, proxies: TrustedProxies): string | undefined {
  if ((socket as Partial<TLSSocket>).encrypted === true) return 'https:';
  if (!isTrustedProxy(socket, proxies)) return undefined;
  const stated = headers['x-forwarded-proto'];
  // The last one is what the nearest proxy has seen.
  const scheme = (Array.isArray(stated) ? stated.at(-1) : stated)?.split(',').at(-1)?.trim().toLowerCase();
  if (scheme === 'https' || scheme === 'wss') return 'https:';
  return scheme === 'http' || scheme === 'ws' ? 'http:' : undefined;
}

/**
 * A page whose name was re-pointed at the server's address (DNS rebinding) is refused although its origin
 * equals its host: on loopback a server answers to loopback names only, elsewhere to its own `hosts` if
 * they are listed.
 */
export function checkHost(request: IncomingMessage, site: SiteOptions): Refusal | undefined {
  const onLoopback = isLoopback(request.socket.localAddress);
  if (onLoopback ? isLoopbackName(request, site) : site.hosts.length === 0) return undefined;
  if (isListedHost(request, site)) return undefined;
  return {
    code: 'SECURITY_POLICY',
    message: onLoopback
      ? "this server listens on loopback and was asked under another name; add it to the server's hosts"
      : 'this server was asked under a name that is not among its hosts',
    closeCode: CloseCode.FORBIDDEN,
  };
}

/**
 * Whether a page about the server itself may be shown. Probes ask for them by address, so that only
 * rebinding to loopback is prevented.
 */
export function isPageHost(request: IncomingMessage, site: SiteOptions): boolean {
  if (!isLoopback(request.socket.localAddress)) return true;
  return isLoopbackName(request, site) || isListedHost(request, site);
}

/** A request without a host is not a browser's. */
function isLoopbackName({ headers }: IncomingMessage, { origins }: SiteOptions): boolean {
  const host = headers.host?.toLowerCase();
  const name = host === undefined ? undefined : hostOf(`http://${host}`)?.replace(/:\d+$/, '');
  if (name === undefined || LOOPBACK_NAMES.has(name) || name.endsWith('.localhost')) return true;
  return origins.includes('*') || origins.some((origin) => hostOf(origin) === host);
}

function isListedHost({ headers }: IncomingMessage, { hosts }: SiteOptions): boolean {
  const host = headers.host?.toLowerCase() ?? '';
  return hosts.includes(host) || hosts.includes(host.replace(/:\d+$/, ''));
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
