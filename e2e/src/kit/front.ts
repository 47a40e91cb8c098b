import { connect, createServer, type Server, type Socket } from 'node:net';

/** A TCP balancer in front of several nodes. */

export interface Front {
  readonly port: number;
  /** Breaks every connection; the next ones go to other nodes. */
  cut(): void;
  close(): Promise<void>;
}

let accepted = 0;

/** How many connections all fronts of this process have had so far. */
export const connectionsSoFar = (): number => accepted;

/**
 * Connects every connection to the next of `ports`.
 *
 * @param port its own one; 0 for any.
 */
export async function openFront(port: number, ports: readonly number[]): Promise<Front> {
  const sockets = new Set<Socket>();
  let connections = 0;
  const server: Server = createServer({ allowHalfOpen: true }, (near) => {
    accepted++;
    const far = connect({
      port: ports[connections++ % ports.length] as number,
      host: '127.0.0.1',
      allowHalfOpen: true,
    });
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.on('error', () => to.resetAndDestroy());
      from.on('close', (hasFailed) => {
        sockets.delete(from);
        if (hasFailed) to.resetAndDestroy();
      });
      from.pipe(to);
    }
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', resolve);
  });
  return {
    port: (server.address() as { port: number }).port,
    cut() {
      for (const socket of sockets) socket.resetAndDestroy();
    },
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
