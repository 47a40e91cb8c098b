import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { build } from '../../scripts/build-ui.js';

/**
 * Benches measure the packages as shipped. The sources would run too, but the loader that strips their types
 * adds a property to every function: 20 KB of heap per session, and time wherever functions are created.
 */

const SOURCE_CONDITION = '--conditions=@parlance/source';

export function runsFromSource(): boolean {
  return process.execArgv.includes(SOURCE_CONDITION);
}

/** Builds the packages and runs this program again on the result. @returns its exit code. */
export async function rerunCompiled(): Promise<number> {
  await build('@parlance/server');
  const flags = process.execArgv.filter((flag) => flag !== SOURCE_CONDITION);
  const child = spawn(process.execPath, [...flags, ...process.argv.slice(1)], { stdio: 'inherit' });
  const [code] = (await once(child, 'exit')) as [number | null];
  return code ?? 1;
}
