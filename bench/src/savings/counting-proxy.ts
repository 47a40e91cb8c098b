import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import type { Traffic } from '../gateway/ways.js';

/** Passes bytes on to a port of this machine, and counts them: all that the two ends write, without the headers of TCP and IP. */
export interface CountingProxy extends AsyncDisposable {
  readonly port: number;
  /** From the side of the client. */
  bytes(): Traffic;
}

export async function createCountingProxy(target: number): Promise<CountingProxy> {
  const counted = { sent: 0, received: 0 };
  const sockets = new Set<{ destroy(): void }>();
  const server = createServer({ noDelay: true }, (near) => {
    const far = connect({ port: target, host: '127.0.0.1', noDelay: true });
    for (const [direction, from, to] of [
      ['sent', near, far],
      ['received', far, near],
    ] as const) {
      sockets.add(from);
      from.on('data', (chunk) => {
        counted[direction] += chunk.length;
      });
      from.on('error', () => to.destroy());
      from.on('close', () => sockets.delete(from));
      from.pipe(to);
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    bytes: () => ({ ...counted }),
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
