import { ProtocolError } from '@parlance/protocol/client';

/** The WebSocket standard maps these schemes. */
const SCHEMES: Readonly<Record<string, string>> = { 'http:': 'ws:', 'https:': 'wss:' };

/**
 * Resolves the URL of a session server to one with `ws:` or `wss:`; `http:` and `https:` are mapped. In a
 * page, a relative URL refers to the page's own server.
 *
 * @throws {ProtocolError} `invalid_option` if it is not such a URL.
 */
export function resolveUrl(given: string | URL): URL {
  if (typeof given !== 'string' && !(given instanceof URL))
    throw new ProtocolError('invalid_option', `url: a string or a URL is expected, not ${typeof given}`);
  const { location } = globalThis as { location?: { href: string } };
  let url: URL;
  try {
    url = new URL(given, location?.href);
  } catch (cause) {
    throw invalidUrl(String(given), cause);
  }
  url.protocol = SCHEMES[url.protocol] ?? url.protocol;
  if (url.protocol !== 'ws:' && url.protocol !== 'wss:') throw invalidUrl(String(given));
  if (url.hash !== '')
    throw new ProtocolError(
      'invalid_option',
      `url: remove ${url.hash}; the URL of a WebSocket cannot have a fragment`,
    );
  return url;
}

/**
 * Suggests a URL if only the scheme is missing. Parsing cannot tell: `localhost:8765/session` has the scheme
 * "localhost", and `127.0.0.1:8765/session` is not a URL.
 */
function invalidUrl(given: string, cause?: unknown): ProtocolError {
  const guess = /^[^\s/?#@]+(?:\/[^\s/?#][^\s?#]*)?$/.test(given)
    ? `ws://${given}`
    : 'ws://127.0.0.1:8765/session';
  return new ProtocolError('invalid_option', `url: it must begin with ws:// or wss://, such as ${guess}`, {
    cause,
  });
}

/** The URL without user and query, which may contain secrets. */
function redacted({ protocol, host, pathname }: URL): string {
  return `${protocol}//${host}${pathname}`;
}

/** The error for a connection that neither opens nor fails. */
export function connectionTimeout(url: URL, timeoutMs: number): ProtocolError {
  const reason = `no answer within ${timeoutMs} ms (the timer acceptTimeoutMs)`;
  return new ProtocolError('connection_failed', `cannot connect to ${redacted(url)}: ${reason}`);
}

/** The error of a socket that cannot be opened: empty in browsers, a system error or an HTTP status with `ws`. */
export interface SocketFailure {
  readonly message: string;
  readonly error: unknown;
}

/** The error for a connection that could not be opened, with the probable remedy. */
export function connectionFailure(url: URL, { message, error }: SocketFailure): ProtocolError {
  const { code, errors } = (error ?? {}) as { code?: string; errors?: readonly Error[] };
  // If a name has several addresses, there are several errors, and no common message.
  const text = (message || errors?.map((each) => each.message).join(', ') || '').trim();
  const status = /^Unexpected server response: (\d{3})$/.exec(text)?.[1];
  const reason = status === undefined ? systemReason(code ?? '', url) : statusReason(status, url);
  const detail = text === '' || status !== undefined ? '' : ` (${text})`;
  return new ProtocolError('connection_failed', `cannot connect to ${redacted(url)}: ${reason}${detail}`, {
    cause: error,
  });
}

function systemReason(code: string, { protocol }: URL): string {
  switch (code) {
    case 'ECONNREFUSED':
      return 'nothing listens there; is the server running, and is the port right?';
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return 'unknown host';
    case 'EPROTO':
      return 'the server does not speak TLS; use ws: or put a TLS proxy in front of it';
    case 'ECONNRESET':
      return protocol === 'ws:'
        ? 'the server closed the connection; if it requires TLS, use wss:'
        : 'the server closed the connection';
    default:
      return 'is the server running, and are host, port and path right?';
  }
}

function statusReason(status: string, { pathname }: URL): string {
  const answered = `the server answered with HTTP ${status}`;
  switch (status) {
    case '404':
      return `${answered}: there is no session endpoint at ${pathname}; the default path is /session`;
    case '401':
    case '403':
      return `${answered}: a proxy in front of the session server refused this client`;
    case '429':
      return `${answered}: too many new sessions from this address; try again later`;
    default:
      return `${answered} instead of a WebSocket: it is not a session server, or a proxy in front of it does not forward WebSockets`;
  }
}
