import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** A TCP proxy that lets connections die without a word: they stay open, and what is sent is dropped. */
export interface SilentProxy extends AsyncDisposable {
  readonly port: number;
  /** Connections that were accepted so far. */
  readonly opened: number;
  /** Those that are open at both ends. */
  readonly open: number;
  /** Connections from now on: they work, are dropped with a reset, or are accepted and never spoken on. */
  arrivals: 'work' | 'refused' | 'silent';
  /**
   * Drops pieces on the present connections from now on: all pieces, or only those from the server after so many more.
   */
  silence(what: 'all' | 'answers', pieces?: number): void;
  /** Each piece that comes from the server comes so much later, in milliseconds. */
  delayMs: number;
  /** Breaks the present connections with a reset. */
  cut(): void;
}

class Pair {
  readonly near: Socket;
  readonly far: Socket;
  hasRequests = true;
  answersLeft = Infinity;

  constructor(near: Socket, far: Socket, delayMs: () => number, onOver: () => void) {
    this.near = near;
    this.far = far;
    const end = (): void => {
      onOver();
      near.destroy();
      far.destroy();
    };
    for (const socket of [near, far]) socket.setNoDelay(true).on('error', () => {});
    near.on('close', end);
    // A client would learn of it otherwise.
    far.on('close', () => this.answersLeft > 0 && end());
    near.on('data', (chunk) => this.hasRequests && !far.destroyed && far.write(chunk));
    far.on('data', (chunk) => {
      if (this.answersLeft > 0) {
        if (delayMs() > 0) setTimeout(() => near.destroyed || near.write(chunk), delayMs());
        else near.write(chunk);
      }
      this.answersLeft--;
    });
  }
}

/** @param target the port that connections go to. */
export async function createSilentProxy(target: number): Promise<SilentProxy> {
  const pairs = new Set<Pair>();
  let opened = 0;
  const server: Server = createServer((near) => {
    near.on('error', () => {});
    if (proxy.arrivals === 'refused') {
      near.resetAndDestroy();
      return;
    }
    opened++;
    const far = connect(target, '127.0.0.1');
    const pair: Pair = new Pair(
      near,
      far,
      () => proxy.delayMs,
      () => pairs.delete(pair),
    );
    pairs.add(pair);
    if (proxy.arrivals === 'silent') silence(pair, 'all', 0);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const proxy: SilentProxy = {
    port: (server.address() as AddressInfo).port,
    get opened() {
      return opened;
    },
    get open() {
      return pairs.size;
    },
    arrivals: 'work',
    delayMs: 0,
    silence(what, pieces = 0) {
      for (const pair of pairs) silence(pair, what, pieces);
    },
    cut() {
      for (const { near, far } of [...pairs]) {
        near.resetAndDestroy();
        far.resetAndDestroy();
      }
    },
    async [Symbol.asyncDispose]() {
      proxy.cut();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return proxy;
}

function silence(pair: Pair, what: 'all' | 'answers', pieces: number): void {
  if (what === 'all') pair.hasRequests = false;
  pair.answersLeft = pieces;
}
