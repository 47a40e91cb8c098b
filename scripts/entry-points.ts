import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** What users import of the packages, and what its types promise. */

export interface EntryPoint {
  /** As users import it. */
  readonly name: string;
  /** The folder in `packages`. */
  readonly folder: string;
  /** Paths of files. */
  readonly source: string;
  readonly declarations: string;
}

const FOLDERS = ['protocol', 'server', 'client', 'cli'] as const;

/** Subpaths of the protocol that only the other packages import, and what exports nothing. */
const PRIVATE = new Set([
  ...['application', 'internal', 'client', 'http', 'serve-http', 'contract', 'foreign-names', 'events']
    .concat('records', 'lifecycle')
    .map((name) => `@parlance/protocol/${name}`),
  '@parlance/client/shared-worker',
]);

interface Manifest {
  readonly name: string;
  readonly exports: Readonly<Record<string, string | Readonly<Record<string, string>>>>;
}

export const ENTRY_POINTS: readonly EntryPoint[] = FOLDERS.flatMap((folder) => {
  const at = (path: string) => fileURLToPath(new URL(`../packages/${folder}/${path}`, import.meta.url));
  const manifest = JSON.parse(readFileSync(at('package.json'), 'utf8')) as Manifest;
  return Object.entries(manifest.exports).flatMap(([subpath, to]) => {
    const name = manifest.name + subpath.slice(1);
    if (typeof to === 'string' || PRIVATE.has(name)) return [];
    const { '@parlance/source': source = '', types = '' } = to;
    return [{ name, folder, source: at(source), declarations: at(types) }];
  });
});
