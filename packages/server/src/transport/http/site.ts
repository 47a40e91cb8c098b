import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { TLSSocket } from 'node:tls';
import { CloseCode, type Limits, type RejectCode, Subprotocol } from '@parlance/protocol';
import { isLoopback, isTrustedProxy, type TrustedProxies } from './addresses.js';
import { admitsOrigin, webOrigin } from './origins.js';

/** Pure decisions about a request: whether it is for this server, and from one of its own pages. */

/** A refusal: what REJECT says, and the close code that follows. */
export interface Refusal {
  readonly code: RejectCode;
  readonly message: string;
  readonly closeCode: CloseCode;
  readonly retryAfterMs?: number | undefined;
  /** The limit that was met, by its name. */
  readonly limit?: keyof Limits | undefined;
}

export const forbidden = (message: string): Refusal => ({
  code: 'SECURITY_POLICY',
  message,
  closeCode: CloseCode.FORBIDDEN,
});

/** The client may try again, after its own delay by default. */
export const busy = (message: string, retryAfterMs?: number): Refusal => ({
  code: 'SERVER_BUSY',
  message,
  closeCode: CloseCode.DRAINING,
  retryAfterMs,
});

/** An error of this server or of its application, which its log has. */
export const failed = (message: string): Refusal => ({
  code: 'UNKNOWN',
  message: `${message}; its log says why`,
  closeCode: CloseCode.INTERNAL,
});

/** The client's list of subprotocols. */
export function subprotocolsOf(header: string | undefined): readonly string[] {
  return (header ?? '').split(',', 32).map((name) => name.trim());
}

/** The first subprotocol in the client's list that the server supports. */
export function chooseSubprotocol(header: string | undefined): Subprotocol | undefined {
  const known: readonly string[] = Object.values(Subprotocol);
  return subprotocolsOf(header).find((name) => known.includes(name)) as Subprotocol | undefined;
}

/** The path of a request, without its query; `undefined` if it is malformed. */
export function pathOf({ url = '' }: Pick<IncomingMessage, 'url'>): string | undefined {
  return url.startsWith('/') ? url.split('?', 1)[0] : undefined;
}

/** A server's own names and origins, and the proxies in front of it. */
export interface SiteOptions {
  /** Origins as browsers write them (`https://app.example`, `capacitor://localhost`, `null`), `https://*.app.example`, or `*` for any. */
  readonly origins: readonly string[];
  /** Names of the server (`app.example`, `app.example:8443`); if empty, every name is accepted. */
  readonly hosts: readonly string[];
  readonly trustedProxies: TrustedProxies;
}

/**
 * Refuses pages of other origins, on loopback too: any web page can reach a local port. A client that
 * sends no `Origin` is not a browser. If the server knows its own scheme, its own origin must have it: an attacker
 * on the network can forge a page of `http://`.
 */
export function checkOrigin(
  request: IncomingMessage,
  { origins, trustedProxies }: SiteOptions,
): Refusal | undefined {
  const { origin } = request.headers;
  if (origin === undefined || origins.some((rule) => admitsOrigin(rule, origin))) return undefined;
  const page = webOrigin(origin);
  const scheme = schemeOf(request, trustedProxies);
  const isOwn = page !== undefined && page.host === hostOf(request);
  if (isOwn && (scheme === undefined || page.protocol === scheme)) return undefined;
  return forbidden(`origin ${origin.slice(0, 100)} is not admitted; add it to the server's origins`);
}

/**
 * The scheme of the server's own pages. `undefined` if it is unknown, because a proxy that is not listed may
 * terminate TLS.
 */
function schemeOf({ socket, headers }: IncomingMessage, proxies: TrustedProxies): string | undefined {
  if ((socket as Partial<TLSSocket>).encrypted === true) return 'https:';
  if (!isTrustedProxy(socket, proxies)) return undefined;
  const stated = headers['x-forwarded-proto'];
  // The last value is the one that the nearest proxy has added.
  const scheme = (Array.isArray(stated) ? stated.at(-1) : stated)?.split(',').at(-1)?.trim().toLowerCase();
  if (scheme === 'https' || scheme === 'wss') return 'https:';
  return scheme === 'http' || scheme === 'ws' ? 'http:' : undefined;
}

/**
 * Refuses pages whose name was re-pointed at the server's address (DNS rebinding), although their origin equals
 * their host: on loopback a server accepts loopback names only, elsewhere only its `hosts` if any are listed.
 */
export function checkHost(request: IncomingMessage, site: SiteOptions): Refusal | undefined {
  // Without hosts, these names are admitted at any address, and asking for that is a call of the system.
  if (site.hosts.length === 0 && LOOPBACK_NAMES.has(hostOf(request).replace(PORT, ''))) return undefined;
  const onLoopback = isLoopback(request.socket.localAddress);
  if (onLoopback ? isLoopbackName(request, site) : site.hosts.length === 0) return undefined;
  if (isListedHost(request, site)) return undefined;
  return forbidden(
    onLoopback
      ? "this server listens on loopback and was requested under another name; add it to the server's hosts"
      : "the requested host name is not among the server's hosts",
  );
}

/**
 * Whether a status page may be shown. Probes request these pages by address, so only rebinding to loopback is
 * prevented.
 */
export function isPageHost(request: IncomingMessage, site: SiteOptions): boolean {
  if (!isLoopback(request.socket.localAddress)) return true;
  return isLoopbackName(request, site) || isListedHost(request, site);
}

/** A request without a host does not come from a browser. */
function isLoopbackName(request: IncomingMessage, { origins }: SiteOptions): boolean {
  const host = hostOf(request);
  const url = `http://${host}`;
  const name = URL.canParse(url) ? new URL(url).hostname : undefined;
  if (name === undefined || LOOPBACK_NAMES.has(name) || name.endsWith('.localhost')) return true;
  return origins.some((rule) =>
    ['http', 'https'].some((scheme) => admitsOrigin(rule, `${scheme}://${host}`)),
  );
}

function isListedHost(request: IncomingMessage, { hosts }: SiteOptions): boolean {
  const host = hostOf(request);
  return hosts.includes(host) || hosts.includes(host.replace(PORT, ''));
}

/** Host and port as requested, in lower case; empty if there is none. HTTP/2 has a header of its own for it. */
function hostOf({ headers }: IncomingMessage): string {
  return String(headers.host ?? headers[':authority'] ?? '').toLowerCase();
}

const PORT = /:\d+$/;
const LOOPBACK_NAMES: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]']);

/** The token of an `Authorization: Bearer` header. */
export function bearerToken(headers: IncomingHttpHeaders): string | undefined {
  const [scheme, token, ...rest] = (headers.authorization ?? '').split(' ');
  return scheme?.toLowerCase() === 'bearer' && token && rest.length === 0 ? token : undefined;
}
