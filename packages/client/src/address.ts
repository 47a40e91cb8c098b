import { ProtocolError } from '@parlance/protocol';

/** Where a session server is, and why it cannot be reached there. */

/** As the WebSocket standard reads these schemes. */
const SCHEMES: Readonly<Record<string, string>> = { 'http:': 'ws:', 'https:': 'wss:' };

/**
 * The URL of a WebSocket: `ws:` or `wss:`, for which `http:` and `https:` may stand; in a page, a path
 * is one on the page's own server.
 *
 * @throws {ProtocolError} `invalid_option`.
 */
export function resolveUrl(given: string | URL): URL {
  if (typeof given !== 'string' && !(given instanceof URL))
    throw new ProtocolError('invalid_option', `url: a string or a URL is expected, not ${typeof given}`);
  const { location } = globalThis as { location?: { href: string } };
  let url: URL;
  try {
    url = new URL(given, location?.href);
  } catch (cause) {
    throw noWebSocketUrl(String(given), cause);
  }
  url.protocol = SCHEMES[url.protocol] ?? url.protocol;
  if (url.protocol !== 'ws:' && url.protocol !== 'wss:') throw noWebSocketUrl(String(given));
  if (url.hash !== '')
    throw new ProtocolError(
      'invalid_option',
      `url: leave out ${url.hash}, which the URL of a WebSocket cannot have`,
    );
  return url;
}

/** `localhost:8765/session` is a URL of the scheme "localhost", and `127.0.0.1:8765/session` is none. */
function noWebSocketUrl(given: string, cause?: unknown): ProtocolError {
  const guess = /^[^\s/?#@]+(?:\/[^\s/?#][^\s?#]*)?$/.test(given)
    ? `ws://${given}`
    : 'ws://127.0.0.1:8765/session';
  return new ProtocolError(
    'invalid_option',
    `url: write it with ws:// or wss:// in front, such as ${guess}`,
    {
      cause,
    },
  );
}

/** Without what may be a secret. */
function shown({ protocol, host, pathname }: URL): string {
  return `${protocol}//${host}${pathname}`;
}

/** The error for a connection that neither opens nor fails. */
export function connectionTimeout(url: URL, timeoutMs: number): ProtocolError {
  const why = `no answer within ${timeoutMs} ms (the timer acceptTimeoutMs)`;
  return new ProtocolError('connection_failed', `cannot connect to ${shown(url)}: ${why}`);
}

/** What a socket says when it cannot be opened: browsers nothing, `ws` the system's error or a status. */
export interface SocketFailure {
  readonly message: string;
  readonly error: unknown;
}

/** The error for a connection that could not be opened, with what is probably to be done about it. */
export function connectionFailure(url: URL, { message, error }: SocketFailure): ProtocolError {
  const { code, errors } = (error ?? {}) as { code?: string; errors?: readonly Error[] };
  // A name with several addresses fails with several errors, and without a message of its own.
  const told = (message || errors?.map((each) => each.message).join(', ') || '').trim();
  const status = /^Unexpected server response: (\d{3})$/.exec(told)?.[1];
  const why = status === undefined ? ofSystem(code ?? '', url) : ofStatus(status, url);
  const detail = told === '' || status !== undefined ? '' : ` (${told})`;
  return new ProtocolError('connection_failed', `cannot connect to ${shown(url)}: ${why}${detail}`, {
    cause: error,
  });
}

function ofSystem(code: string, { protocol }: URL): string {
  switch (code) {
    case 'ECONNREFUSED':
      return 'nothing listens there; is the server running, and is the port right?';
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return 'there is no such host';
    case 'EPROTO':
      return 'the server does not speak TLS; write ws: or put a proxy that does in front of it';
    case 'ECONNRESET':
      return protocol === 'ws:' ? 'the server hung up; if it speaks TLS, write wss:' : 'the server hung up';
    default:
      return 'is the server running, and are host, port and path right?';
  }
}

function ofStatus(status: string, { pathname }: URL): string {
  const answered = `the server answered with HTTP ${status}`;
  switch (status) {
    case '404':
      return `${answered}: it has no sessions at ${pathname}; unless its path option says otherwise, they are at /session`;
    case '401':
    case '403':
      return `${answered}: something in front of the session server does not let this client through`;
    case '429':
      return `${answered}: too many new sessions from this address; try again later`;
    default:
      return `${answered} in place of a WebSocket: it is no session server, or a proxy in front of one that passes no WebSockets on`;
  }
}
