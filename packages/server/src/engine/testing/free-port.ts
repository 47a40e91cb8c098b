import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * Below those that the system gives to connections, one of which might have the port when its owner starts, or starts again; and
 * above 10,080, the last one that browsers refuse.
 */
const [FIRST, LAST] = [10_081, 32_000];

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
