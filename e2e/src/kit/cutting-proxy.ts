import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { within } from '../../../packages/server/src/engine/late.js';

/** A TCP proxy that loses connections: at once, in the middle of a frame, or silently. */
export interface CuttingProxy extends AsyncDisposable {
  readonly port: number;
  /** Connections that were opened so far. */
  readonly opened: number;
  /** Bytes that came from either end so far. */
  readonly bytes: { readonly fromClient: number; readonly fromServer: number };
  /** Breaks every open connection at both ends. */
  cut(): void;
  /** Forwards only some of the next bytes from the server, then breaks the connection. */
  cutAfter(bytes: number): void;
  /** Keeps every open connection open but stops forwarding; new ones work. */
  freeze(): void;
  /** Keeps every open connection open and forwards what clients say, but no answer; new ones work. */
  dropAnswers(): void;
  /** Whether to refuse new connections. */
  refuse(refuses: boolean): void;
  /** Whether to accept new connections without forwarding. */
  swallow(swallows: boolean): void;
  /** Connects new connections to another port. */
  redirect(target: number): void;
  /** Writes other bytes of the same length in place of some that come from the server. */
  falsify(right: string, wrong: string): void;
}

/** Pauses a fast sender, so that the ends buffer the data and not the proxy. */
function pass(from: Socket, to: Socket, chunk: Buffer): void {
  if (to.write(chunk)) return;
  from.pause();
  to.once('drain', () => from.resume());
}

/** @param port where connections go to; if it is a function, each of them asks it. */
export async function createCuttingProxy(port: number | (() => number)): Promise<CuttingProxy> {
  const pairs = new Set<readonly [Socket, Socket]>();
  const swallowed = new Set<Socket>();
  let opened = 0;
  const bytes = { fromClient: 0, fromServer: 0 };
  let refuses = false;
  let swallows = false;
  let allowance = Infinity;
  let target = port;
  let falsified: readonly [right: string, wrong: string] | undefined;

  const server: Server = createServer({ noDelay: true }, (near) => {
    near.on('error', () => {});
    if (refuses) {
      near.destroy();
      return;
    }
    opened++;
    if (swallows) {
      swallowed.add(near.resume());
      near.once('close', () => swallowed.delete(near));
      return;
    }
    const far = connect(typeof target === 'number' ? target : target(), '127.0.0.1').setNoDelay();
    far.on('error', () => near.destroy());
    const pair = [near, far] as const;
    pairs.add(pair);
    const end = () => {
      pairs.delete(pair);
      near.destroy();
      far.destroy();
    };
    near.on('close', end).on('data', (chunk) => {
      bytes.fromClient += chunk.length;
      pass(near, far, chunk);
    });
    far.on('close', end).on('data', (chunk) => {
      bytes.fromServer += chunk.length;
      const at = falsified === undefined ? -1 : chunk.indexOf(falsified[0]);
      if (falsified !== undefined && at >= 0) chunk.write(falsified[1], at);
      if (chunk.length < allowance) {
        allowance -= chunk.length;
        pass(far, near, chunk);
        return;
      }
      const part = chunk.subarray(0, allowance);
      allowance = Infinity;
      near.write(part, end);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));

  const cut = () => {
    for (const near of [...swallowed]) near.resetAndDestroy();
    for (const [near, far] of [...pairs]) {
      near.resetAndDestroy();
      far.resetAndDestroy();
    }
  };
  return {
    port: (server.address() as AddressInfo).port,
    get opened() {
      return opened;
    },
    bytes,
    cut,
    cutAfter(bytes) {
      allowance = bytes;
    },
    freeze() {
      for (const [near, far] of pairs) {
        near.removeAllListeners('data').pause();
        far.removeAllListeners('data').pause();
      }
    },
    dropAnswers() {
      for (const [, far] of pairs) far.removeAllListeners('data').resume();
    },
    refuse(value) {
      refuses = value;
    },
    swallow(value) {
      swallows = value;
    },
    redirect(port) {
      target = port;
    },
    falsify(...words) {
      falsified = words;
    },
    async [Symbol.asyncDispose]() {
      cut();
      const closed = new Promise((resolve) => server.close(resolve));
      await within(
        closed,
        60_000,
        () => new Error(`a proxy keeps ${pairs.size + swallowed.size} connections`),
      );
    },
  };
}
