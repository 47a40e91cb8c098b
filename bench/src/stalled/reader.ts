import { connect } from '@parlance/client';
import WebSocket from 'ws';
import { offer } from '../../../scripts/child-process.js';

import { Wish } from './wish.js';

/** A session that stalls, in a process of its own. */

export type Stall = 'application' | 'socket' | 'server';

const STREAMS = 8;
const PIECE = new Uint8Array(16 * 1024).fill(7);
const [port = '', stall] = process.argv.slice(2) as [string, Stall];

const sockets: WebSocket[] = [];
class KeptWebSocket extends WebSocket {
  constructor(url: string, protocols: string[]) {
    super(url, protocols);
    sockets.push(this);
  }
}

const commands = {
  async stall(): Promise<void> {
    const session = await connect(`ws://127.0.0.1:${port}/session`, {
      WebSocket: KeptWebSocket,
      agentId: 'stalled',
      algorithms: ['NONE'],
      encodings: [],
      limits: { messagesPerMinute: Infinity, bytesPerSecond: Infinity },
    });
    if (stall === 'server') {
      await session.send(Uint8Array.of(Wish.IGNORE));
      void flood(() => session.send(PIECE));
      return;
    }
    // Asks for messages and replies, and reads none of them.
    await session.send(Uint8Array.of(Wish.FLOOD));
    for (let i = 0; i < STREAMS; i++) session.stream('without end');
    if (stall === 'socket') for (const socket of sockets) socket.pause();
  },
};
export type ReaderCommands = typeof commands;

async function flood(send: () => Promise<void>): Promise<void> {
  for (;;) await send();
}

offer(commands);
