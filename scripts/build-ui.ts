import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const root = fileURLToPath(new URL('..', import.meta.url));

/** Where the built pages of the command line are. */
export const BUILT_PAGES = join(root, 'packages/cli/dist/ui');

/** Builds all pages from their sources; nothing happens if they have not changed. */
export const buildUserInterface = (): Promise<void> => build('@parlance/ui');

/** Builds a package and those that it needs, unless they have not changed. */
export async function build(name: string): Promise<void> {
  const turbo = createRequire(import.meta.url).resolve('turbo/bin/turbo');
  const args = [turbo, 'run', 'build', `--filter=${name}`, '--output-logs=errors-only'];
  // Turbo looks there for pnpm.
  const path = `${join(root, 'node_modules', '.bin')}${delimiter}${process.env['PATH']}`;
  await promisify(execFile)(process.execPath, args, { cwd: root, env: { ...process.env, PATH: path } });
}
