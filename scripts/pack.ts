import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/** The packages as they would be published. */

const root = fileURLToPath(new URL('..', import.meta.url));
const execute = promisify(execFile);
export const PACKAGES = ['protocol', 'server', 'client', 'cli'] as const;

let packed: Promise<string> | undefined;

/**
 * Packs every package, after a build. Packing takes seconds, so all checks of one run share the tarballs.
 *
 * @returns the folder with one tarball for each package, which is deleted when the process exits.
 */
export function packOnce(): Promise<string> {
  packed ??= pack();
  return packed;
}

async function pack(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'parlance-tarballs-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  for (const name of PACKAGES) {
    await execute('npx', ['--no-install', 'pnpm', 'pack', '--pack-destination', folder], {
      cwd: join(root, 'packages', name),
    });
  }
  return folder;
}

/** Paths of the tarballs in a folder that {@link packOnce} has filled, in the order of {@link PACKAGES}. */
export function tarballsIn(folder: string): readonly string[] {
  const files = readdirSync(folder);
  return PACKAGES.map((name) => {
    const file = files.find((each) => each.startsWith(`parlance-${name}-`) && each.endsWith('.tgz'));
    if (file === undefined) throw new Error(`${folder} contains no tarball of ${name}`);
    return join(folder, file);
  });
}
