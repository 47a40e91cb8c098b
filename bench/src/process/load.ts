import { offer } from '../../../scripts/child-process.js';
import { type Crowd, type CrowdOptions, openCrowd } from '../load/crowd.js';
import { loadSystem } from '../systems/registry.js';
import type { SystemName } from '../systems/system.js';
import { cpuTime } from './cpu.js';

/** The clients of one server, in a process of their own. */

const system = await loadSystem(process.argv[2] as SystemName);
let crowd: Crowd | undefined;

/** A reading of the load; a measurement takes two. */
export interface LoadMark {
  readonly atMs: number;
  readonly echoes: number;
  readonly cpuUs: number;
}

const commands = {
  /** @returns milliseconds until all connections were ready. */
  async open(options: CrowdOptions): Promise<number> {
    const start = performance.now();
    crowd = await openCrowd(system, options);
    return performance.now() - start;
  },

  start: () => crowd?.start(),

  mark: (): LoadMark => ({ atMs: performance.now(), echoes: crowd?.echoes ?? 0, cpuUs: cpuTime() }),

  stop: () => crowd?.stop(),

  async close(): Promise<void> {
    await crowd?.close();
    crowd = undefined;
  },
};
export type LoadCommands = typeof commands;

offer(commands);
