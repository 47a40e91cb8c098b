import { createServer as createHttpServer, request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Networks that WebSockets do not pass. */

export type OnUpgrade =
  | 'refuse'
  | 'hold'
  | 'cut after 3 s'
  | 'drop the answers to'
  | 'hold the frames behind';

/** A proxy that forwards requests and answers as they come, and that no WebSocket passes. */
export async function withoutUpgrades(
  target: number | (() => number),
  onUpgrade: OnUpgrade,
): Promise<AsyncDisposable & { readonly port: number }> {
  const portOf = () => (typeof target === 'number' ? target : target());
  const held = new Set<{ destroy(): void }>();
  const proxy = createHttpServer((request, response) => {
    const { method, url, headers } = request;
    const forward = httpRequest({ port: portOf(), method, path: url, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.on('error', () => response.destroy());
      answer.pipe(response);
    });
    forward.on('error', () => response.destroy());
    response.on('close', () => forward.destroy());
    request.pipe(forward);
  });
  proxy.on('upgrade', (_request, socket) => {
    held.add(socket.on('error', () => {}));
    if (onUpgrade === 'refuse') socket.end('HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n');
  });
  if (onUpgrade === 'drop the answers to')
    proxy.on('upgrade', ({ url, headers }) => {
      const forward = httpRequest({ port: portOf(), path: url, headers });
      forward.on('upgrade', (_answer, socket) => held.add(socket.on('error', () => {})));
      forward.on('error', () => {}).end();
    });
  if (onUpgrade === 'hold the frames behind')
    proxy.on('upgrade', ({ url, headers }, near) => {
      const forward = httpRequest({ port: portOf(), path: url, headers });
      forward.on('upgrade', ({ rawHeaders }, far) => {
        held.add(far.on('error', () => {}).resume());
        near.write(`HTTP/1.1 101 Switching Protocols\r\n${headOf(rawHeaders)}\r\n`);
        near.pipe(far);
      });
      forward.on('error', () => {}).end();
    });
  if (onUpgrade === 'cut after 3 s')
    proxy.on('upgrade', ({ url, headers }, near, early) => {
      const forward = httpRequest({ port: portOf(), path: url, headers });
      forward.on('upgrade', ({ rawHeaders }, far, head) => {
        held.add(far.on('error', () => {}).on('close', () => near.destroy()));
        near.on('close', () => far.destroy());
        near.write(`HTTP/1.1 101 Switching Protocols\r\n${headOf(rawHeaders)}\r\n`);
        near.write(head);
        far.write(early);
        near.pipe(far).pipe(near);
        setTimeout(() => near.destroy(), 3_000).unref();
      });
      forward.on('error', () => near.destroy()).end();
    });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  return {
    port: (proxy.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      for (const socket of held) socket.destroy();
      proxy.close();
      proxy.closeAllConnections();
    },
  };
}

const headOf = (rawHeaders: readonly string[]) =>
  rawHeaders.map((text, i) => (i % 2 === 0 ? `${text}: ` : `${text}\r\n`)).join('');
