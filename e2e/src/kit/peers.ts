import { setTimeout as pause } from 'node:timers/promises';
import { type ClientSession, connect } from '@parlance/client';
import {
  type ControlMessage,
  decodeControl,
  encodeControl,
  type HelloPayload,
  type ProtocolError,
  Subprotocol,
  type UnknownMessage,
} from '@parlance/protocol';
import { createServer, type Server, type ServerOptions } from '@parlance/server';
import WebSocket from 'ws';

/** Servers and clients of one test, and clients that follow no protocol. */

export interface Peers extends AsyncDisposable {
  serve(options?: ServerOptions): Promise<{ server: Server; url: string; port: number }>;
  dial(url: string, options?: Parameters<typeof connect>[1]): Promise<ClientSession>;
  /** Closes the resource with everything else. */
  use<T extends AsyncDisposable>(resource: T): T;
}

/** A node that a slow machine keeps from its engine has not joined when it listens. */
const JOINING = 'the server has not joined its cluster yet';

/** With `OVER_HTTP=1`, the sessions of {@link Peers.dial} are over HTTP, so that any test can be run over it. */
const overHttp = process.env['OVER_HTTP'] === '1';
const DIALED = overHttp ? ({ transports: ['http'] } as const) : {};

/** Handlers fail on purpose here. */
const unprinted = () => {};

export function createPeers(): Peers {
  const open: AsyncDisposable[] = [];
  const use = <T extends AsyncDisposable>(resource: T): T => {
    open.push(resource);
    return resource;
  };
  return {
    use,
    async serve(options = {}) {
      const server = use(createServer({ onError: unprinted, ...options }));
      const { url, port } = await server.listen();
      return { server, url, port };
    },
    async dial(url, options = {}) {
      for (;;) {
        try {
          return use(await connect(url, { WebSocket, onError: unprinted, ...DIALED, ...options }));
        } catch (error) {
          if ((error as Error).message !== JOINING) throw error;
          await pause(100);
        }
      }
    },
    async [Symbol.asyncDispose]() {
      for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
    },
  };
}

/** The error that a promise rejects with. */
export const failure = (promise: Promise<unknown>): Promise<ProtocolError> =>
  promise.then(
    () => {
      throw new Error('it did not fail');
    },
    (error: unknown) => error as ProtocolError,
  );

export const HELLO: HelloPayload = {
  shape: 'flat',
  version: '1.0',
  algorithms: ['NONE', 'M2M', 'TOKEN_NATIVE', 'BROTLI'],
  encodings: ['CL100K_BASE'],
  preferredEncoding: 'CL100K_BASE',
  securityScanning: false,
  maxPayloadSize: 0,
  supportsStreaming: true,
  extensions: { link: '{}' },
};

export const helloBytes = (change: Partial<HelloPayload> = {}) =>
  encodeControl({ type: 'HELLO', sessionId: null, timestamp: 1, payload: { ...HELLO, ...change } });

/** A WebSocket that the test controls. */
export interface RawPeer {
  readonly socket: WebSocket;
  /** All messages that have arrived. */
  readonly received: (Uint8Array | string)[];
  readonly closed: Promise<{ readonly code: number; readonly reason: string }>;
  send(frame: Uint8Array | string): void;
  /** The next control message of a type that was not yet consumed. */
  control<Type extends ControlMessage['type']>(type: Type): Promise<Extract<ControlMessage, { type: Type }>>;
}

/** Resolves when the upgrade is complete; rejects with the HTTP error. */
export async function openRaw(
  url: string,
  options: WebSocket.ClientOptions = {},
  subprotocol: string = Subprotocol.BINARY,
): Promise<RawPeer> {
  const socket = new WebSocket(url, [subprotocol], options);
  const received: (Uint8Array | string)[] = [];
  const controls: (ControlMessage | UnknownMessage)[] = [];
  const waiting = new Set<() => void>();
  socket.on('message', (data: Buffer, isBinary) => {
    received.push(isBinary ? data : data.toString());
    const first = data[0] ?? 0;
    if (isBinary && ((first >= 0x80 && first <= 0x8f) || first >= 0xde)) controls.push(decodeControl(data));
    for (const wake of waiting) wake();
  });
  const closed = new Promise<{ code: number; reason: string }>((resolve) =>
    socket.once('close', (code, reason) => {
      resolve({ code, reason: reason.toString() });
      for (const wake of waiting) wake();
    }),
  );
  await new Promise<void>((resolve, reject) => {
    socket.once('open', resolve);
    socket.once('error', reject);
  });
  socket.on('error', () => {});
  return {
    socket,
    received,
    closed,
    send: (frame) => socket.send(frame),
    async control(type) {
      for (;;) {
        const index = controls.findIndex((message) => message.type === type);
        if (index >= 0) return controls.splice(index, 1)[0] as never;
        if (socket.readyState === WebSocket.CLOSED) throw new Error(`closed without ${type}`);
        await new Promise<void>((resolve) => {
          const wake = () => {
            waiting.delete(wake);
            resolve();
          };
          waiting.add(wake);
        });
      }
    },
  };
}

/** Opens a session by hand. */
export async function greet(
  url: string,
  change: Partial<HelloPayload> = {},
  options: WebSocket.ClientOptions = {},
): Promise<RawPeer & { readonly sessionId: string; readonly resumeToken: string | undefined }> {
  const peer = await openRaw(url, options);
  peer.send(helloBytes(change));
  const { sessionId, payload } = await peer.control('ACCEPT');
  return Object.assign(peer, { sessionId: sessionId as string, resumeToken: payload.resume?.token });
}
