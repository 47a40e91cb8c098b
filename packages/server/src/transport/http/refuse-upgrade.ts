import type { Duplex } from 'node:stream';

const REASONS = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  410: 'Gone',
  429: 'Too Many Requests',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
};

/** Milliseconds that a client has to read the answer and close. Cutting it off earlier could lose the answer. */
const LINGER_MS = 1_000;

/**
 * Answers with a plain HTTP error, if nothing takes upgrades at the path, the address is over a limit, or another node has
 * no ticket. Closes the connection, even if the client does not.
 *
 * @param more `Retry-After` in milliseconds, which the client gets in whole seconds, or other headers.
 */
export function refuseUpgrade(
  socket: Duplex,
  status: keyof typeof REASONS,
  message: string,
  more: number | readonly string[] = [],
): void {
  socket.on('error', () => {});
  const body = `${message}\n`;
  const head = [
    `HTTP/1.1 ${status} ${REASONS[status]}`,
    'Connection: close',
    'Content-Type: text/plain; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    ...(typeof more === 'number' ? [`Retry-After: ${Math.ceil(more / 1000)}`] : more),
  ];
  const lingering = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once('close', () => clearTimeout(lingering));
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
  // Node notices the end of a connection only if it is read.
  socket.resume();
}
