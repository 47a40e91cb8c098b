import { createServer, type Server as HttpServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ProtocolError } from '@parlance/protocol';

export interface ListenOptions {
  /** 0 takes a free one. @default 0 */
  readonly port?: number | undefined;
  /** @default '127.0.0.1' */
  readonly host?: string | undefined;
}

/** An HTTP server of our own. */
export interface Listener {
  readonly http: HttpServer;
  readonly port: number;
  readonly host: string;
  /** Host and port as they stand in a URL. */
  readonly authority: string;
}

/** How often Node looks for requests that do not come to an end. */
const MAX_CHECK_INTERVAL_MS = 5_000;

/**
 * @param requestTimeoutMs within this a request has to arrive, an upgrade among them.
 * @throws {ProtocolError} `connection_failed` where the port is taken.
 */
export async function openListener(
  { port = 0, host = '127.0.0.1' }: ListenOptions,
  requestTimeoutMs: number,
  onRequest: RequestListener,
): Promise<Listener> {
  const timeout = Number.isFinite(requestTimeoutMs) ? Math.max(1, Math.ceil(requestTimeoutMs)) : 0;
  const http = createServer(
    {
      headersTimeout: timeout,
      requestTimeout: timeout,
      connectionsCheckingInterval: Math.min(MAX_CHECK_INTERVAL_MS, timeout || MAX_CHECK_INTERVAL_MS),
    },
    onRequest,
  );
  await new Promise<void>((resolve, reject) => {
    http.once('error', (cause) =>
      reject(
        new ProtocolError('connection_failed', `cannot listen on ${host}:${port}: ${cause.message}`, {
          cause,
        }),
      ),
    );
    http.listen(port, host, resolve);
  });
  const address = http.address() as AddressInfo;
  const name = address.family === 'IPv6' ? `[${address.address}]` : address.address;
  return { http, port: address.port, host: address.address, authority: `${name}:${address.port}` };
}

/** Takes no new connections, and resolves when the last one is gone. */
export function closeListener(http: HttpServer): Promise<void> {
  return new Promise((resolve) => http.close(() => resolve()));
}
