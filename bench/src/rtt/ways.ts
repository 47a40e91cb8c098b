import { type ClientOptions, connect, type WebSocketConstructor } from '@parlance/client';
import { io } from 'socket.io-client';
import WebSocket from 'ws';
import type { SystemName } from '../systems/system.js';
import type { DelayingProxy } from './delaying-proxy.js';

/** From nothing to the first reply, in milliseconds since the client has begun to connect. */
export interface Times {
  readonly ready: number;
  readonly reply: number;
}

/** A client of one system, as an application uses it. */
export interface Way {
  readonly name: string;
  /** The server. */
  readonly system: SystemName;
  connect(proxy: DelayingProxy): Promise<Times>;
}

const QUESTION = Buffer.alloc(100, 2);

export const WAYS: readonly Way[] = [
  { name: 'ws', system: 'ws', connect: ({ port }) => plain(port) },
  { name: 'socket.io', system: 'socket.io', connect: ({ port }) => socketIo(port) },
  { name: 'session', system: 'session', connect: ({ port }) => session(port, true) },
  { name: 'session, HELLO in a frame', system: 'session', connect: ({ port }) => session(port, false) },
  { name: 'resume', system: 'session', connect: (proxy) => resume(proxy, true) },
  { name: 'resume, HELLO in a frame', system: 'session', connect: (proxy) => resume(proxy, false) },
];

async function plain(port: number): Promise<Times> {
  const start = performance.now();
  const socket = new WebSocket(`ws://127.0.0.1:${port}/`, { perMessageDeflate: false });
  await new Promise((resolve) => socket.once('open', resolve));
  const ready = performance.now() - start;
  socket.send(QUESTION);
  await new Promise((resolve) => socket.once('message', resolve));
  const reply = performance.now() - start;
  socket.close();
  return { ready, reply };
}

/** With its WebSocket alone: by default it begins with requests, which takes longer. */
async function socketIo(port: number): Promise<Times> {
  const start = performance.now();
  const socket = io(`http://127.0.0.1:${port}`, {
    transports: ['websocket'],
    forceNew: true,
    reconnection: false,
  });
  await new Promise<void>((resolve) => socket.once('connect', resolve));
  const ready = performance.now() - start;
  await socket.emitWithAck('message', QUESTION);
  const reply = performance.now() - start;
  socket.close();
  return { ready, reply };
}

const optionsOf = (earlyHello: boolean): ClientOptions => ({
  WebSocket,
  earlyHello,
  reconnect: { minDelayMs: 0.001, maxDelayMs: 0.001 },
});

async function session(port: number, earlyHello: boolean): Promise<Times> {
  const start = performance.now();
  const session = await connect(`ws://127.0.0.1:${port}/session`, optionsOf(earlyHello));
  const ready = performance.now() - start;
  await session.request(QUESTION);
  const reply = performance.now() - start;
  void session.close();
  return { ready, reply };
}

/** From the moment at which the client opens the connection that follows a lost one. */
async function resume(proxy: DelayingProxy, earlyHello: boolean): Promise<Times> {
  let start = 0;
  class Timed extends WebSocket {
    constructor(url: string, protocols: string[]) {
      start = performance.now();
      super(url, protocols);
    }
  }
  const session = await connect(`ws://127.0.0.1:${proxy.port}/session`, {
    ...optionsOf(earlyHello),
    WebSocket: Timed as unknown as WebSocketConstructor,
  });
  await session.request(QUESTION);
  const isReady = new Promise<number>((resolve) => {
    session.on('state', (state) => {
      if (state === 'established') resolve(performance.now());
    });
  });
  proxy.cut();
  const answer = session.request(QUESTION);
  const readyAt = await isReady;
  await answer;
  const times = { ready: readyAt - start, reply: performance.now() - start };
  void session.close();
  return times;
}
