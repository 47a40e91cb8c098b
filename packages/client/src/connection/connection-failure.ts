import { ProtocolError } from '@parlance/protocol/client';
import { cannotConnect } from './cannot-connect.js';

/** Explains what answers at a URL if it is not a session server. Loaded when that happens. */

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
