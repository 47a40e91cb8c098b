import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** One connection through a proxy. */
export interface WatchedPair {
  /** The session that a test has last seen on it. */
  session: string | undefined;
  /** A test waits for something on it. */
  isAwaited: boolean;
}

/** Bytes that a proxy has read from one end, before the other one gets them. */
export interface WatchedChunk {
  readonly from: 'client' | 'server';
  readonly text: string;
  readonly pair: WatchedPair;
}

/** Whether it is passed on or dropped, or the connection is cut instead, or reset for the client. */
export type Verdict = 'pass' | 'drop' | 'cut' | 'reset';
export type Watch = (chunk: WatchedChunk) => Verdict | Promise<Verdict>;

export interface WatchingProxy extends AsyncDisposable {
  readonly port: number;
  /** Cuts every connection, and refuses others until `allow`. */
  refuse(): void;
  allow(): void;
}

/**
 * A TCP proxy that shows all that it reads before it passes it on, in order.
 *
 * @param port where connections go to; if it is a function, each of them asks it.
 */
export async function createWatchingProxy(
  port: number | (() => number),
  watch: Watch,
): Promise<WatchingProxy> {
  const sockets = new Set<Socket>();
  let refuses = false;
  const server = createServer((near) => {
    near.on('error', () => {});
    if (refuses) return void near.destroy();
    const far = connect(typeof port === 'number' ? port : port(), '127.0.0.1');
    far.on('error', () => near.destroy());
    const pair: WatchedPair = { session: undefined, isAwaited: false };
    const cut = () => {
      near.destroy();
      far.destroy();
    };
    const pass = (from: WatchedChunk['from'], source: Socket, sink: Socket) => {
      sockets.add(source);
      let last: Promise<void> = Promise.resolve();
      const after = (task: () => void | Promise<void>) => {
        last = last.then(task).catch(cut);
      };
      source.on('data', (chunk) =>
        after(async () => {
          const verdict = await watch({ from, text: chunk.toString('latin1'), pair });
          if (verdict === 'reset') near.resetAndDestroy();
          if (verdict === 'cut' || verdict === 'reset') cut();
          else if (verdict === 'pass' && !sink.destroyed) sink.write(chunk);
        }),
      );
      source.on('end', () => after(() => void sink.end()));
      source.on('close', () => {
        sockets.delete(source);
        after(() => void sink.destroy());
      });
    };
    pass('client', near, far);
    pass('server', far, near);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    refuse() {
      refuses = true;
      for (const socket of sockets) socket.destroy();
    },
    allow() {
      refuses = false;
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
