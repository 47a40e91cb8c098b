import { connect } from '@parlance/client';
import WebSocket from 'ws';
import { offer } from '../../../scripts/child-process.js';
import type { System } from './cluster/server.js';

/** Members of a room, all in one process. */

let received = 0;
/** Milliseconds since it was sent, of the message that has arrived last. */
let late = 0;

function take(text: string): void {
  received++;
  late = performance.timeOrigin + performance.now() - (JSON.parse(text) as { sent: number }).sent;
}

async function enter(url: string): Promise<void> {
  const session = await connect(url, { WebSocket, token: 'member' });
  void (async () => {
    for await (const message of session) take(message.text);
  })();
}

async function enterPlain(url: string): Promise<void> {
  const socket = new WebSocket(url, { perMessageDeflate: false });
  socket.on('message', (data) => take(String(data)));
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
}

/** Speaks Engine.IO 4 and socket.io 5 directly, so that the load costs as little as for others. */
async function enterSocketIo(url: string): Promise<void> {
  const socket = new WebSocket(`${url}socket.io/?EIO=4&transport=websocket`, { perMessageDeflate: false });
  await new Promise<void>((resolve, reject) => {
    socket.once('error', reject);
    socket.on('message', (data) => {
      const text = String(data);
      if (text === '2') socket.send('3');
      else if (text.startsWith('0')) socket.send('40');
      else if (text.startsWith('40')) resolve();
      else if (text.startsWith('42')) take((JSON.parse(text.slice(2)) as [string, string])[1]);
    });
  });
}

const commands = {
  async enter({ url, system, count }: { url: string; system: System; count: number }): Promise<void> {
    for (let i = 0; i < count; i += 50) {
      const some = Array.from({ length: Math.min(50, count - i) }, () =>
        system === 'parlance' ? enter(`${url}session`) : enterSocketIo(url),
      );
      await Promise.all(some);
    }
  },
  async open({ url, isPlain, count }: { url: string; isPlain: boolean; count: number }): Promise<void> {
    for (let i = 0; i < count; i += 50) {
      const some = Array.from({ length: Math.min(50, count - i) }, () =>
        isPlain ? enterPlain(url) : enter(url),
      );
      await Promise.all(some);
    }
  },
  /** Waits for so many messages since the last call. @returns how late the last one was, in milliseconds. */
  async arrived(count: number): Promise<number> {
    while (received < count) await new Promise((resolve) => setTimeout(resolve, 1));
    received = 0;
    return late;
  },
};
export type MemberCommands = typeof commands;
offer(commands);
