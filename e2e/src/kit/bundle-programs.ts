import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { type Plugin, rolldown } from 'rolldown';
import { SOURCES } from './programs.js';

/**
 * Bundles the programs that tests start as processes, from the sources, before the first test: a bundle starts in a third of
 * the processor time that the hundreds of modules take, and there are hundreds of processes.
 */

/** Within a package, as what asks the runtime whether an optional package is installed is answered for the place of the bundle. */
const PARENT = fileURLToPath(new URL('../../../packages/protocol/node_modules/.cache', import.meta.url));

/** The names of packages become the paths that their importer gets; modules of ours keep their address. */
const inPlace: Plugin = {
  name: 'in-place',
  async resolveId(source, importer) {
    if (importer === undefined || /^(?:[./#]|node:|@parlance\/)/.test(source)) return undefined;
    const found = await this.resolve(source, importer, { skipSelf: true });
    return { id: found?.id.startsWith('/') ? pathToFileURL(found.id).href : source, external: true };
  },
  transform: (code, id) =>
    code.includes('import.meta.url')
      ? code.replaceAll('import.meta.url', JSON.stringify(pathToFileURL(id).href))
      : undefined,
};

/** Called by vitest before and after all tests of a project. */
export async function setup(): Promise<(() => void) | undefined> {
  // Another project of this run has bundled them.
  if (process.env['E2E_PROGRAMS'] !== undefined) return undefined;
  const folder = await bundlePrograms(SOURCES);
  process.env['E2E_PROGRAMS'] = folder;
  return () => rmSync(folder, { recursive: true, force: true });
}

/** @returns the folder with a file `NAME.mjs` for each program. */
export async function bundlePrograms(sources: Readonly<Record<string, URL>>): Promise<string> {
  mkdirSync(PARENT, { recursive: true });
  const folder = mkdtempSync(join(PARENT, 'programs-'));
  const bundle = await rolldown({
    input: Object.fromEntries(Object.entries(sources).map(([name, source]) => [name, fileURLToPath(source)])),
    platform: 'node',
    resolve: { conditionNames: ['@parlance/source', 'node', 'import', 'module', 'default'] },
    // The oldest Node that runs them has no `using`.
    transform: { target: 'node20' },
    plugins: [inPlace],
  });
  await bundle.write({
    dir: folder,
    format: 'esm',
    entryFileNames: '[name].mjs',
    chunkFileNames: '[name]-[hash].mjs',
  });
  await bundle.close();
  return folder;
}
