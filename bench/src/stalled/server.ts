import { createServer } from '@parlance/server';
import { offer } from '../../../scripts/child-process.js';
import { cpuTime } from '../process/cpu.js';
import { settledMemory } from '../process/memory.js';
import { UNLIMITED } from '../unlimited.js';
import { Wish } from './wish.js';

/** Echoes, except for sessions that ask for something else. */

let echoes = 0;
const PIECE = new Uint8Array(16 * 1024).fill(7);

const server = createServer({
  algorithms: ['NONE'],
  encodings: [],
  limits: UNLIMITED,
  // A reader that has left is forgotten before the next one comes.
  timers: { resumeWindowMs: 200 },
  async onSession(session) {
    for await (const { bytes } of session) {
      if (bytes[0] === Wish.FLOOD) {
        for (;;) await session.send(PIECE);
      } else if (bytes[0] === Wish.IGNORE) {
        await new Promise(() => {});
      } else {
        await session.send(bytes);
        echoes++;
      }
    }
  },
  async *onRequest(_request, { signal }) {
    while (!signal.aborted) yield { bytes: PIECE };
  },
});
const { port } = await server.listen();

const commands = {
  port: () => port,

  connections: () => server.sessions.size,

  mark: () => ({ echoes, cpuUs: cpuTime() }),

  memory: settledMemory,

  /** Bytes in either direction between the server and sessions that get no echo. */
  passed() {
    let total = 0;
    for (const session of server.sessions.values()) {
      if (session.agentId !== 'stalled') continue;
      const { sent, received } = session.stats();
      total += sent.contentBytes + received.contentBytes;
    }
    return total;
  },
};
export type StalledServerCommands = typeof commands;

offer(commands);
