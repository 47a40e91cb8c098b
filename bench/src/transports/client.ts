import { type ClientSession, connect } from '@parlance/client';
import { WebSocket } from 'ws';
import { offer } from '../../../scripts/child-process.js';
import { ageOf, type Pace, sendAtPace } from './pace.js';

/** A client of one session, in a process of its own. */

let session: ClientSession | undefined;
let ages: number[] = [];

const commands = {
  async open({ url, transport }: { url: string; transport: 'websocket' | 'http' }): Promise<void> {
    const opened = await connect(url, {
      transports: [transport],
      WebSocket,
      algorithms: ['NONE'],
      encodings: [],
    });
    session = opened;
    void read(opened);
  },
  /** Sends messages to the server. */
  async send(pace: Pace): Promise<void> {
    const opened = session;
    if (opened === undefined) throw new Error('no session is open');
    await sendAtPace(pace, (bytes) => void opened.send(bytes));
  },
  /** Milliseconds that each message took to come here, since the last call. */
  takeAges(): number[] {
    const taken = ages;
    ages = [];
    return taken;
  },
  close: () => session?.close(),
};
export type ClientCommands = typeof commands;

async function read(opened: ClientSession): Promise<void> {
  for await (const { bytes } of opened) ages.push(ageOf(bytes));
}

offer(commands);
