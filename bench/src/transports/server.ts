import { createServer, type ServerSession } from '@parlance/server';
import { offer } from '../../../scripts/child-process.js';
import { cpuTime } from '../process/cpu.js';
import { UNLIMITED } from '../unlimited.js';
import { ageOf, type Pace, sendAtPace } from './pace.js';

/** One session at a time, in a process of its own. */

let current: ServerSession | undefined;
let ages: number[] = [];
const server = createServer({
  algorithms: ['NONE'],
  encodings: [],
  limits: UNLIMITED,
  async onSession(session) {
    current = session;
    for await (const { bytes } of session) ages.push(ageOf(bytes));
  },
});
const { url } = await server.listen();

const commands = {
  url: () => url,
  cpuUs: cpuTime,
  /** Sends messages to the client. */
  async send(pace: Pace): Promise<void> {
    const session = current;
    if (session === undefined) throw new Error('no session has begun');
    await sendAtPace(pace, (bytes) => void session.send(bytes));
  },
  /** Milliseconds that each message took to come here, since the last call. */
  takeAges(): number[] {
    const taken = ages;
    ages = [];
    return taken;
  },
};
export type ServerCommands = typeof commands;

offer(commands);
