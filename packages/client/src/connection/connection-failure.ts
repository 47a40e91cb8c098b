import { ProtocolError } from '@parlance/protocol/client';
import { cannotConnect, unreached } from './cannot-connect.js';
import type { SocketFailure } from './web-socket.js';

/** Explains connections that have failed. Loaded when that happens: a page that has reached no server is told nothing. */

/** UTF-16 units or bytes of an answer that an error quotes. */
const MAX_QUOTED = 48;

/** How servers of other protocols begin, or answer what they do not know. */
const SIGNS: readonly (readonly [sign: RegExp, name: string])[] = [
  [/^0\{"sid"/, 'a socket.io server'],
  [/^\{"type":"(?:connection_(?:ack|error)|ka)"/, 'a GraphQL server'],
  [/^\{"type":"connected"/, 'a development server such as Vite'],
  [/^\{"type":"welcome"/, 'an Action Cable server'],
  [/^(?:o$|a\[)/, 'a SockJS server'],
  [/"phx_(?:reply|error)"/, 'a Phoenix server'],
  [/^\{\}\W$/, 'a SignalR server'],
];
/** The type of a control message of Parlance, in either subprotocol. */
const OWN = /type\W{1,4}(HELLO|ACCEPT|REJECT|WAIT|CLOSE|GOAWAY)/;

/**
 * The error with the URL, and with a guess at what has answered if it is not a session server.
 *
 * @param first the first message that has arrived.
 */
export function explain(
  url: URL,
  failure: ProtocolError,
  first: Uint8Array | string | undefined,
): ProtocolError {
  const answer =
    typeof first === 'string' ? first : first && String.fromCharCode(...first.subarray(0, 4_096));
  const own = answer === undefined ? undefined : OWN.exec(answer)?.[1];
  if (own !== undefined && own !== 'HELLO') return failure;
  // Session servers say the code of an error when they close a connection.
  if (answer === undefined && /^the connection closed with code \d+: [a-z_]+: /.test(failure.message))
    return failure;
  const what = own === 'HELLO' ? 'it sends back what it is sent' : described(answer, first, failure);
  return new ProtocolError(
    failure.code,
    `${cannotConnect(url)}what answers there is not a Parlance session server, or does not reach one: ${what}`,
    { cause: failure, side: failure.side, closeCode: failure.closeCode, retryable: failure.retryable },
  );
}

function described(
  answer: string | undefined,
  first: Uint8Array | string | undefined,
  { message }: ProtocolError,
): string {
  // It has closed the connection, or says nothing.
  if (answer === undefined) return message;
  const said = `it said ${JSON.stringify(answer.slice(0, MAX_QUOTED))}`;
  const name = SIGNS.find(([sign]) => sign.test(answer))?.[1];
  if (name !== undefined) return `it looks like ${name}: ${said}`;
  return typeof first === 'string' ? said : `it sent ${first?.length} bytes of another protocol`;
}

// --- a URL

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

// --- a connection that could not be opened

/** The error for a connection that could not be opened, with the probable remedy. */
export function describe(url: URL, { message, error }: SocketFailure): ProtocolError {
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
  return new ProtocolError('connection_failed', `${cannotConnect(url)}${reason}${detail}`, {
    cause: error,
  });
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
