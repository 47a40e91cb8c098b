import { execFile } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { promisify } from 'node:util';

/**
 * The cores of a server and of its load. On one core, nothing is woken up on another one; across two, each message wakes an idle
 * core. A scheduler takes now the one and now the other, which changes ratios by half.
 */
const CORES = { 'one core': [0, 0], 'two cores': [0, 1], unpinned: undefined } as const;
export type Placement = keyof typeof CORES;

/** Those that this machine allows. */
export const PLACEMENTS: readonly Placement[] =
  process.platform === 'linux' && availableParallelism() > 1 ? ['one core', 'two cores'] : ['unpinned'];

interface Placed {
  readonly server: { readonly pid: number };
  readonly load: { readonly pid: number };
}

/** Pins all threads of both processes, by `taskset` of util-linux. */
export async function place({ server, load }: Placed, placement: Placement): Promise<void> {
  const cores = CORES[placement];
  if (cores === undefined) return;
  await Promise.all([server, load].map(({ pid }, index) => pin(pid, cores[index] as number)));
}

async function pin(pid: number, core: number): Promise<void> {
  await promisify(execFile)('taskset', ['--all-tasks', '--cpu-list', '--pid', `${core}`, `${pid}`]);
}
