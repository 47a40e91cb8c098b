import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A TCP proxy that replaces a text in what the server says by another one of the same length. */
export async function createRewritingProxy(
  target: number,
  text: string,
  replacement: string,
): Promise<AsyncDisposable & { readonly port: number }> {
  if (text.length !== replacement.length) throw new Error('both texts must have the same length');
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(target, '127.0.0.1');
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.on('error', () => {}).on('close', () => to.destroy());
    }
    near.on('data', (chunk) => far.write(chunk));
    far.on('data', (chunk) =>
      near.write(Buffer.from(chunk.toString('latin1').replace(text, replacement), 'latin1')),
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}
