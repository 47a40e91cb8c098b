import { ProtocolError } from '@parlance/protocol/client';
import { connectionFailure, unreached } from './cannot-connect.js';

/** Explains WebSockets that could not be opened, and URLs. Loaded when that happens: a page that has reached no server is told nothing. */

/** The error of a socket that cannot be opened: empty in browsers, a system error or an HTTP status with `ws`. */
export interface SocketError {
  readonly message: string;
  readonly error: unknown;
}

/**
 * Suggests a URL if only the scheme is missing. Parsing cannot tell: `localhost:8765/session` has the scheme
 * "localhost", and `127.0.0.1:8765/session` is not a URL.
 *
 * @param url what it means to the page, if it is a URL.
 */
export function invalidUrl(given: unknown, url: URL | undefined): ProtocolError {
  if (typeof given !== 'string' && !(given instanceof URL))
    return new ProtocolError('invalid_option', `url: a string or a URL is expected, not ${typeof given}`);
  if (url !== undefined && /^wss?:$/.test(url.protocol))
    return new ProtocolError(
      'invalid_option',
      `url: remove ${url.hash}; the URL of a WebSocket cannot have a fragment`,
    );
  const text = String(given);
  const guess = /^[^\s/?#@]+(?:\/[^\s/?#][^\s?#]*)?$/.test(text)
    ? `ws://${text}`
    : 'ws://127.0.0.1:8765/session';
  return new ProtocolError('invalid_option', `url: it must begin with ws:// or wss://, such as ${guess}`);
}

/**
 * The error for a connection that could not be opened, with the probable remedy.
 *
 * @param saysHello HELLO travelled in the upgrade request.
 * @returns `undefined` if that may be the reason.
 */
export function explain(url: URL, failed: SocketError, saysHello: boolean): ProtocolError | undefined {
  if (saysHello && !isExplained(failed)) return undefined;
  const { message, error } = failed;
  const { code, errors } = (error ?? {}) as { code?: string; errors?: readonly Error[] };
  // If a name has several addresses, there are several errors, and no common message.
  const text = (message || errors?.map((each) => each.message).join(', ') || '').trim();
  const status = /^Unexpected server response: (\d{3})$/.exec(text)?.[1];
  const reason = text.endsWith('subprotocol')
    ? 'a WebSocket server answers there, but it is not a Parlance session server: GraphQL servers refuse its subprotocol like this'
    : status === undefined
      ? systemReason(code ?? '', url)
      : statusReason(status, url);
  const detail = text === '' || status !== undefined ? '' : ` (${text})`;
  return connectionFailure(url, reason + detail, error);
}

/** Codes of certificates that are not trusted. Those of OpenSSL; `ERR_TLS_CERT_ALTNAME_INVALID` is about its names. */
const UNTRUSTED = /^(?:DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_(?:VERIFY|GET)_\w+)$/;

function systemReason(code: string, url: URL): string {
  const { protocol, hostname } = url;
  if (UNTRUSTED.test(code))
    return 'its certificate is not trusted here, as one that is self-signed or of a CA of your own is not; NODE_EXTRA_CA_CERTS names a file with the certificate of the CA, or with that certificate, when Node starts';
  switch (code) {
    case 'CERT_HAS_EXPIRED':
      return 'its certificate has expired';
    case 'CERT_NOT_YET_VALID':
      return 'its certificate is not valid yet; is the clock of this machine right?';
    case 'ERR_TLS_CERT_ALTNAME_INVALID':
      return `its certificate is not for the name ${hostname}`;
    case 'ECONNREFUSED':
      return 'nothing listens there; is the server running, and is the port right?';
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return 'unknown host';
    case 'EPROTO':
      return 'the server does not speak TLS; use ws: or put a TLS proxy in front of it';
    case 'ECONNRESET': {
      const closed =
        'the server closed the connection, as a socket.io server does at paths that are not its own';
      return protocol === 'ws:'
        ? `${closed}; if it requires TLS, use wss:`
        : 'the server closed the connection, as one does that does not speak TLS; if so, use ws:';
    }
    default:
      return unreached(url);
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
    case '502':
    case '503':
    case '504':
      return `${answered}: the proxy in front of the session server does not reach it, or it is shutting down`;
    case '400':
      return `${answered}: it is a server of other WebSockets, such as socket.io, or another listener of the same HTTP server answered, such as ws with { server, path }; the default path is /session`;
    default:
      return `${answered} instead of a WebSocket: it is not a session server, or a proxy in front of it does not forward WebSockets`;
  }
}

/** Whether an upgrade has failed for a reason that is not the length of its request, and only `ws` says what was answered to it. */
function isExplained({ message, error }: SocketError): boolean {
  const { code } = Object(error) as { readonly code?: string };
  // A proxy may drop the connection in place of an answer.
  if (code !== undefined) return code !== 'ECONNRESET' && code !== 'EPIPE';
  return /: (?:40[1347]|429|50[234])$|subprotocol$/.test(message);
}
