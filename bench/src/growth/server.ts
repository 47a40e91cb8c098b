import { setTimeout as sleep } from 'node:timers/promises';
import { createServer } from '@parlance/server';
import { offer } from '../../../scripts/child-process.js';
import { settledMemory } from '../process/memory.js';
import { UNLIMITED } from '../unlimited.js';

/** Begins a stream for each request, and says no more, in a process of its own. */

const server = createServer({
  limits: { ...UNLIMITED, maxStreams: 10_000 },
  async *onRequest(_request, { signal }) {
    yield 'begun';
    await sleep(3_600_000, undefined, { signal }).catch(() => {});
  },
});
const { url } = await server.listen();

const commands = {
  url: () => url,

  /** Bytes of heap after garbage collection. */
  memory: async () => (await settledMemory()).heapUsed,
};
export type StreamsCommands = typeof commands;

offer(commands);
