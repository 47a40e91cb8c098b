import type { AddressInfo, Socket } from 'node:net';
import { connect, createServer } from 'node:net';

/**
 * A way to a WebSocket server that adds latency to messages. Chromium delays the handshake itself, as it does every
 * request, but not the messages after it (`measureDelays` shows that).
 *
 * @param latencyMs of everything that a client sends after its handshake.
 * @returns the port to connect to.
 */
export async function listenLate(port: number, latencyMs: number): Promise<number> {
  const server = createServer((client) => {
    const far = connect(port, '127.0.0.1');
    client.setNoDelay(true);
    far.setNoDelay(true);
    far.pipe(client);
    client.once('data', (handshake) => {
      far.write(handshake);
      client.on('data', (bytes) => setTimeout(() => far.write(bytes), latencyMs));
    });
    endTogether(client, far);
    endTogether(far, client);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

function endTogether(one: Socket, other: Socket): void {
  one.on('error', () => {});
  one.once('close', () => other.destroy());
}
