import { connect } from '@parlance/client';
import WebSocket from 'ws';
import { offer } from '../../../scripts/child-process.js';
export type Stall = 'application' | 'socket';

/** An agent that does not read, and others that send it as much as they may, in a process of their own. */

const SENDERS = 4;
const MESSAGE = new Uint8Array(1024).fill(7);
const [port = '', stall] = process.argv.slice(2) as [string, Stall];

const sockets = new Set<WebSocket>();
class KeptWebSocket extends WebSocket {
  constructor(url: string, protocols: string[]) {
    super(url, protocols);
    sockets.add(this);
  }
}

const open = (token: string) =>
  connect(`ws://127.0.0.1:${port}/session`, {
    WebSocket: KeptWebSocket,
    token,
    algorithms: ['NONE'],
    encodings: [],
    limits: { messagesPerMinute: Infinity, bytesPerSecond: Infinity },
  });

let sent = 0;

const commands = {
  async stall(): Promise<void> {
    await open('stalled');
    if (stall === 'socket') for (const socket of sockets) socket.pause();
    for (let i = 0; i < SENDERS; i++) {
      const sender = await open(`stalling-${i}`);
      void (async () => {
        for (;;) {
          await sender.send(MESSAGE, { to: 'stalled' });
          sent++;
        }
      })();
    }
  },

  /** Messages sent so far. */
  sent: () => sent,
};
export type StallerCommands = typeof commands;

offer(commands);
