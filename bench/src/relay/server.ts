import { offer } from '../../../scripts/child-process.js';
import { type PeakMemory, settleHeap, watchMemory } from '../avp/memory.js';
import { cpuTime } from '../process/cpu.js';
import { settledMemory } from '../process/memory.js';
import { type RelayName, serveBuffers, serveSessions } from './relays.js';

/** A relay in a process of its own. */

const { port, recoded } = await ((process.argv[2] as RelayName) === 'ws' ? serveBuffers() : serveSessions());
await settleHeap();
let memory: PeakMemory | undefined;

const commands = {
  port: () => port,

  /** A moment of the relay; two of them make a measurement. */
  mark: () => ({ cpuUs: cpuTime(), recoded: recoded() }),

  watch(): void {
    // Collecting by force makes what follows slower, so that is done once, before all.
    memory ??= watchMemory();
  },

  /** @returns bytes beyond what the process held when it was watched first, at most. */
  peak: (): number => (memory === undefined ? 0 : memory.peak() - memory.base),

  memory: settledMemory,
};
export type RelayServerCommands = typeof commands;

offer(commands);
