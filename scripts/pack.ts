import { execFile } from 'node:child_process';
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { publication, withAbsoluteLinks, withFacts } from './publication.js';

/** The packages as they would be published: with the changelog, the addresses that are known, and links that a page elsewhere can follow. */

const root = fileURLToPath(new URL('..', import.meta.url));
const execute = promisify(execFile);
/** Those that a project installs, each after those that it depends on. */
export const PACKAGES = ['protocol', 'server', 'client', 'cli'] as const;
/** All that are published, by folder. */
export const PUBLISHED = [...PACKAGES, 'create'] as const;

let packed: Promise<string> | undefined;

/**
 * Packs every package, after a build. Packing takes seconds, so all checks of one run share the tarballs.
 *
 * @returns the folder with one tarball for each package, which is deleted when the process exits.
 */
export function packOnce(): Promise<string> {
  packed ??= packIntoTemporary();
  return packed;
}

async function packIntoTemporary(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'parlance-tarballs-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  await packInto(folder);
  return folder;
}

/** Packs every package, after a build, into a folder that exists. */
export async function packInto(folder: string): Promise<void> {
  const staging = mkdtempSync(join(tmpdir(), 'parlance-staging-'));
  try {
    for (const name of PUBLISHED) await packOne(name, staging, folder);
  } finally {
    rmSync(staging, { recursive: true, force: true });
  }
}

async function packOne(name: string, staging: string, destination: string): Promise<void> {
  const own = `packages/${name}`;
  const folder = join(staging, name);
  mkdirSync(folder);
  // pnpm writes the versions in place of `workspace:`.
  await execute('npx', ['--no-install', 'pnpm', 'pack', '--pack-destination', folder], {
    cwd: join(root, own),
  });
  const [tarball = ''] = readdirSync(folder);
  await execute('tar', ['-xzf', tarball], { cwd: folder });

  const content = join(folder, 'package');
  const edit = (file: string, change: (text: string) => string) =>
    writeFileSync(join(content, file), change(readFileSync(join(content, file), 'utf8')));
  edit(
    'package.json',
    (text) => `${JSON.stringify(withFacts(JSON.parse(text), publication, own), null, 2)}\n`,
  );
  edit('README.md', (text) => withAbsoluteLinks(text, publication, own));
  copyFileSync(join(root, 'CHANGELOG.md'), join(content, 'CHANGELOG.md'));
  edit('CHANGELOG.md', (text) => withAbsoluteLinks(text, publication, '.'));
  await execute('npm', ['pack', '--ignore-scripts', '--pack-destination', destination], { cwd: content });
}

/**
 * Paths of the tarballs in a folder that {@link packInto} has filled, in the order of the names.
 *
 * @param names @default those that a project installs
 */
export function tarballsIn(
  folder: string,
  names: readonly (typeof PUBLISHED)[number][] = PACKAGES,
): readonly string[] {
  const files = readdirSync(folder);
  return names.map((name) => {
    const begin = name === 'create' ? 'create-parlance-' : `parlance-${name}-`;
    const file = files.find((each) => each.startsWith(begin) && each.endsWith('.tgz'));
    if (file === undefined) throw new Error(`${folder} contains no tarball of ${name}`);
    return join(folder, file);
  });
}
