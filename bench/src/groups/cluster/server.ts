import { readFileSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { cluster, createServer } from '@parlance/server';
import { redis } from '@parlance/server/redis';
import { createAdapter } from '@socket.io/redis-streams-adapter';
import { Redis } from 'ioredis';
import { Server } from 'socket.io';
import { offer } from '../../../../scripts/child-process.js';
import { cpuTime } from '../../process/cpu.js';
import { countTraffic } from '../../process/sockets.js';
import { UNLIMITED } from '../../unlimited.js';

/** One of several nodes with a room, of a session server or of socket.io. */

export type System = 'parlance' | 'socket.io';

export interface NodeSetup {
  readonly system: System;
  /** The URL of Redis. */
  readonly at: string;
}

const { system, at } = JSON.parse(process.argv[2] as string) as NodeSetup;
const http = createHttpServer();
const traffic = countTraffic(http);

interface Room {
  readonly size: () => number;
  readonly send: (text: string) => Promise<unknown>;
}

let isReady = system !== 'parlance';

function note({ event }: Readonly<Record<string, unknown>>): void {
  if (event === 'node.member') isReady = true;
}

function parlanceRoom(): Room {
  const server = createServer({
    engine: redis({ url: at }),
    features: [cluster({ secret: 'a secret of the bench' })],
    logger: { debug() {}, info: note, warn() {}, error: console.error },
    limits: { ...UNLIMITED, sessionsPerPrincipal: Infinity },
    authenticate: ({ token }) => (token === undefined ? null : { principal: token }),
    onSession: (session) => void server.group('room').add(session),
  });
  server.attach(http);
  return { size: () => server.group('room').size, send: (text) => server.group('room').send(text) };
}

function socketIoRoom(): Room {
  const io = new Server(http, {
    transports: ['websocket'],
    perMessageDeflate: false,
    httpCompression: false,
    serveClient: false,
    adapter: createAdapter(new Redis(at)),
  });
  io.on('connection', (socket) => void socket.join('room'));
  return { size: () => io.engine.clientsCount, send: async (text) => io.to('room').emit('m', text) };
}

const room = system === 'parlance' ? parlanceRoom() : socketIoRoom();
await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));

const commands = {
  port: () => (http.address() as AddressInfo).port,
  /** It is a node of its cluster. */
  isReady: () => isReady,
  size: () => room.size(),
  /** Processor time, and bytes that it has written, but for those to its members. */
  mark: () => ({ cpuUs: cpuTime(), wroteBytes: wroteBytes() - traffic().written }),
  async broadcast({ size, count }: { size: number; count: number }): Promise<void> {
    for (let i = 0; i < count; i++) {
      const head = JSON.stringify({ sent: performance.timeOrigin + performance.now(), number: i });
      await room.send(head + ' '.repeat(Math.max(0, size - head.length)));
      await new Promise((resolve) => setImmediate(resolve));
    }
  },
};
export type RoomNodeCommands = typeof commands;

function wroteBytes(): number {
  return Number(/^wchar: (\d+)$/m.exec(readFileSync('/proc/self/io', 'utf8'))?.[1]);
}

offer(commands);
