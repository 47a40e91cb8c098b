import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

/**
 * Benches measure the packages as shipped. The sources would run too, but the loader that strips their types
 * adds a property to every function: 20 KB of heap per session, and time wherever functions are created.
 */

const SOURCE_CONDITION = '--conditions=@parlance/source';

export function runsFromSource(): boolean {
  return process.execArgv.includes(SOURCE_CONDITION);
}

/** Compiles the packages and runs this program again on the result. @returns its exit code. */
export async function rerunCompiled(): Promise<number> {
  const root = fileURLToPath(new URL('../..', import.meta.url));
  const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');
  const built = await run([tsc, '-b', root], ['ignore', 2, 2]);
  if (built !== 0) {
    console.error('cannot measure: the packages do not compile');
    return built;
  }
  const flags = process.execArgv.filter((flag) => flag !== SOURCE_CONDITION);
  return await run([...flags, ...process.argv.slice(1)], 'inherit');
}

async function run(args: readonly string[], stdio: 'inherit' | ['ignore', 2, 2]): Promise<number> {
  const child = spawn(process.execPath, args, { stdio });
  const [code] = (await once(child, 'exit')) as [number | null];
  return code ?? 1;
}
