import type { Duplex } from 'node:stream';

/** Refusals in HTTP: of what is no session at all, and of those who do not stop asking. */

const REASONS = {
  400: 'Bad Request',
  404: 'Not Found',
  429: 'Too Many Requests',
  503: 'Service Unavailable',
};

/** @param retryAfterMs said to the client in whole seconds. */
export function refuseUpgrade(
  socket: Duplex,
  status: keyof typeof REASONS,
  message: string,
  retryAfterMs?: number,
): void {
  socket.on('error', () => {});
  const body = `${message}\n`;
  const head = [
    `HTTP/1.1 ${status} ${REASONS[status]}`,
    'Connection: close',
    'Content-Type: text/plain; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    ...(retryAfterMs === undefined ? [] : [`Retry-After: ${Math.ceil(retryAfterMs / 1000)}`]),
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
}
