import { connect } from '@parlance/client';
import WebSocket from 'ws';
import { offer } from '../../../scripts/child-process.js';

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

const commands = {
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
