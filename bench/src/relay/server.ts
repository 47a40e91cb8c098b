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

  /** A reading of the relay; a measurement takes two. */
  mark: () => ({ cpuUs: cpuTime(), recoded: recoded() }),

  watch(): void {
    // Forced collection slows down what follows, so it happens once, before all measurements.
    memory ??= watchMemory();
  },

  /** @returns peak bytes beyond what the process held when watching began. */
  peak: (): number => (memory === undefined ? 0 : memory.peak() - memory.base),

  memory: settledMemory,
};
export type RelayServerCommands = typeof commands;

offer(commands);
