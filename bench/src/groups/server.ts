import type { AddressInfo } from 'node:net';
import { createServer } from '@parlance/server';
import { WebSocketServer } from 'ws';
import { offer } from '../../../scripts/child-process.js';
import { cpuTime } from '../process/cpu.js';
import { UNLIMITED } from '../unlimited.js';

/** The same rooms of a session server and of plain `ws`, in one process. */

export type Way = 'group' | 'each' | 'ws';

const server = createServer({
  limits: { ...UNLIMITED, sessionsPerPrincipal: Infinity },
  authenticate: ({ token }) => (token === undefined ? null : { principal: token }),
  onSession: (session) => void server.group('room').add(session),
});
const { url } = await server.listen();
const plain = new WebSocketServer({ port: 0, host: '127.0.0.1', perMessageDeflate: false });
await new Promise((resolve) => plain.once('listening', resolve));

const SEND: Readonly<Record<Way, (text: string) => Promise<unknown>>> = {
  group: (text) => server.group('room').send(text),
  each: (text) => Promise.all([...server.group('room')].map((session) => session.send(text))),
  async ws(text) {
    for (const socket of plain.clients) socket.send(text);
  },
};

const commands = {
  urls: () => ({ parlance: url, ws: `ws://127.0.0.1:${(plain.address() as AddressInfo).port}/` }),
  members: () => [server.group('room').size, plain.clients.size],
  cpu: cpuTime,
  /** Sends so many messages, each with its number and when it was sent. */
  async broadcast({ way, size, count }: { way: Way; size: number; count: number }): Promise<void> {
    for (let i = 0; i < count; i++) {
      const head = JSON.stringify({ sent: performance.timeOrigin + performance.now(), number: i });
      await SEND[way](head + ' '.repeat(Math.max(0, size - head.length)));
      await new Promise((resolve) => setImmediate(resolve));
    }
  },
};
export type RoomCommands = typeof commands;
offer(commands);
