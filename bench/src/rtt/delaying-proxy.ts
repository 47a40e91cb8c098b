import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';

/** A way to a server that takes as long as a network does. */
export interface DelayingProxy extends AsyncDisposable {
  readonly port: number;
  /** Breaks every connection. */
  cut(): void;
}

/**
 * @param rttMs every chunk takes half of it, and the first one of a client a whole one more: that of opening a TCP connection, which
 * takes no time on this machine.
 */
export async function createDelayingProxy(target: number, rttMs: number): Promise<DelayingProxy> {
  const sockets = new Set<Socket>();
  const server = createServer({ noDelay: true }, (near) => {
    const isOpenAt = performance.now() + rttMs;
    const far = connect({ port: target, host: '127.0.0.1', noDelay: true });
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      let last: Promise<unknown> = Promise.resolve();
      const later = (task: () => void): void => {
        const due = Math.max(performance.now(), from === near ? isOpenAt : 0) + rttMs / 2;
        if (rttMs === 0) return task();
        last = last.then(() => pause(Math.max(0, due - performance.now()))).then(task);
      };
      from.on('error', () => {});
      from.on('data', (chunk) => later(() => void to.write(chunk)));
      from.on('close', () => {
        sockets.delete(from);
        later(() => void to.destroy());
      });
    }
  });
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const cut = () => {
    for (const socket of [...sockets]) socket.destroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    cut,
    async [Symbol.asyncDispose]() {
      cut();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
