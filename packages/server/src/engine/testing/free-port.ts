import { once } from 'node:events';
import { createServer } from 'node:net';

/** Below those that the system gives to connections, one of which might have the port when its owner starts, or starts again. */
const [FIRST, LAST] = [10_000, 32_000];

/** A port of 127.0.0.1 at which nothing listens. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST));
    const server = createServer().listen(port, '127.0.0.1');
    try {
      await once(server, 'listening');
    } catch {
      continue;
    }
    server.close();
    await once(server, 'close');
    return port;
  }
}
