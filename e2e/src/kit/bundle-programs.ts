import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { type Plugin, rolldown } from 'rolldown';

/**
 * Bundles the programs that tests start as processes, from the sources, before the first test: a bundle starts in a third of
 * the processor time that the hundreds of modules take, and there are hundreds of processes.
 */

/** In this folder's parent. */
const PROGRAMS = ['cluster/durable-node', 'cluster/node', 'survival/node'];

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

/** Called by vitest before and after all tests. */
export async function setup(): Promise<() => void> {
  const folder = mkdtempSync(join(tmpdir(), 'parlance-programs-'));
  const input = Object.fromEntries(
    PROGRAMS.map((name) => [name, fileURLToPath(new URL(`../${name}.ts`, import.meta.url))]),
  );
  const bundle = await rolldown({
    input,
    platform: 'node',
    resolve: { conditionNames: ['@parlance/source', 'node', 'import', 'module', 'default'] },
    plugins: [inPlace],
  });
  await bundle.write({
    dir: folder,
    format: 'esm',
    entryFileNames: '[name].mjs',
    chunkFileNames: '[name]-[hash].mjs',
  });
  await bundle.close();
  process.env['E2E_PROGRAMS'] = folder;
  return () => rmSync(folder, { recursive: true, force: true });
}
