import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** A TCP proxy that imitates network failures on demand. */

export type Direction = 'up' | 'down';

export interface ProxiedConnection {
  /** Breaks the connection at both ends, with a reset. */
  reset(): void;
  /**
   * Forwards only some of the next bytes from one end, possibly up to the middle of a frame, then breaks the
   * connection.
   */
  cutInside(direction: Direction, bytes: number): void;
  /** Closes the connection at both ends in order, as a proxy does that is stopped. */
  finish(): void;
  /** Forwards nothing for a while, and then everything. */
  freeze(ms: number): void;
  /** From now on, drops all data from one end without an error. */
  halve(direction: Direction): void;
  /** Delays everything from now on. */
  delay(ms: number): void;
}

export interface HostileProxy extends AsyncDisposable {
  readonly port: number;
  /** Connections that are open at both ends. */
  readonly connections: readonly ProxiedConnection[];
  /** Connections that were opened so far. */
  readonly opened: number;
  /** Whether new connections are refused. */
  refuses: boolean;
  /** Called with each new connection, before anything passes. @default does nothing */
  onOpened: (connection: ProxiedConnection) => void;
}

/** @param target the port that connections go to; a function is asked for each of them. */
export async function createHostileProxy(target: number | (() => number)): Promise<HostileProxy> {
  const pairs = new Set<Pair>();
  let opened = 0;
  const server: Server = createServer((near) => {
    near.on('error', () => {});
    if (proxy.refuses) {
      near.destroy();
      return;
    }
    opened++;
    const far = connect(typeof target === 'number' ? target : target(), '127.0.0.1');
    far.on('error', () => {});
    const pair = new Pair(near, far);
    pairs.add(pair);
    pair.onOver = () => pairs.delete(pair);
    proxy.onOpened(pair);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const proxy: HostileProxy = {
    port: (server.address() as AddressInfo).port,
    get connections() {
      return [...pairs];
    },
    get opened() {
      return opened;
    },
    refuses: false,
    onOpened: () => {},
    async [Symbol.asyncDispose]() {
      for (const pair of pairs) pair.reset();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return proxy;
}

class Pair implements ProxiedConnection {
  onOver = (): void => {};
  readonly #near: Socket;
  readonly #far: Socket;
  /** Bytes that each direction may still pass on. */
  readonly #allowance: Record<Direction, number> = { up: Infinity, down: Infinity };
  readonly #isDead: Record<Direction, boolean> = { up: false, down: false };
  readonly #timers = new Set<NodeJS.Timeout>();
  #frozenUntil = 0;
  #delayMs = 0;

  constructor(near: Socket, far: Socket) {
    this.#near = near;
    this.#far = far;
    for (const socket of [near, far]) {
      socket.setNoDelay(true);
      socket.on('close', () => this.#end());
    }
    near.on('data', (chunk: Buffer) => this.#take('up', chunk));
    far.on('data', (chunk: Buffer) => this.#take('down', chunk));
    // Data in flight when one end finishes still arrives at the other.
    near.on('end', () => this.#later(() => far.end()));
    far.on('end', () => this.#later(() => near.end()));
  }

  reset(): void {
    this.#near.resetAndDestroy();
    this.#far.resetAndDestroy();
  }

  cutInside(direction: Direction, bytes: number): void {
    this.#allowance[direction] = bytes;
  }

  finish(): void {
    this.#near.end();
    this.#far.end();
  }

  freeze(ms: number): void {
    this.#frozenUntil = performance.now() + ms;
  }

  halve(direction: Direction): void {
    this.#isDead[direction] = true;
  }

  delay(ms: number): void {
    this.#delayMs = ms;
  }

  #take(direction: Direction, chunk: Buffer): void {
    const [from, to] = direction === 'up' ? [this.#near, this.#far] : [this.#far, this.#near];
    // Slow down a sender that is faster than its receiver, as a network does.
    from.pause();
    this.#later(() => {
      if (!from.destroyed) from.resume();
      this.#pass(direction, chunk, to);
    });
  }

  #pass(direction: Direction, chunk: Buffer, to: Socket): void {
    if (this.#isDead[direction] || to.destroyed) return;
    const part = chunk.subarray(0, this.#allowance[direction]);
    this.#allowance[direction] -= chunk.length;
    to.write(part);
    if (this.#allowance[direction] < 0) this.#later(() => this.reset());
  }

  /** Runs a task once the connection moves again. */
  #later(task: () => void): void {
    const waitMs = Math.max(this.#delayMs, this.#frozenUntil - performance.now());
    if (waitMs <= 0) return task();
    const timer = setTimeout(
      () => {
        this.#timers.delete(timer);
        // It may have been frozen again in the meantime.
        if (this.#frozenUntil > performance.now()) this.#later(task);
        else task();
      },
      Math.max(0, waitMs),
    );
    this.#timers.add(timer);
  }

  #end(): void {
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
    this.#near.destroy();
    this.#far.destroy();
    this.onOver();
  }
}
