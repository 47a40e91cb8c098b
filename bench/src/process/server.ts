import { offer } from '../../../scripts/child-process.js';
import { loadSystem } from '../systems/registry.js';
import type { SystemName } from '../systems/system.js';
import { cpuTime } from './cpu.js';
import { settledMemory } from './memory.js';

/** One server in a process of its own. */

const system = await loadSystem(process.argv[2] as SystemName);
let echoes = 0;
const { port, count } = await system.serve(() => {
  echoes++;
});

/** A reading of the server; a measurement takes two. */
export interface ServerMark {
  readonly echoes: number;
  /** Of all threads, in user and system mode. */
  readonly cpuUs: number;
}

const commands = {
  port: () => port,

  connections: () => count(),

  mark: (): ServerMark => ({ echoes, cpuUs: cpuTime() }),

  memory: settledMemory,
};
export type ServerCommands = typeof commands;

offer(commands);
