import { execFile } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { linkTargets } from './docs/links.js';
import { type PackedFile, publication, withFacts, withPackedLinks } from './publication.js';

/** The packages as they would be published: with the changelog, the addresses that are known, and links that a page elsewhere can follow. */

const root = fileURLToPath(new URL('..', import.meta.url));
const execute = promisify(execFile);
/** Those that a project installs, each after those that it depends on. */
export const PACKAGES = ['protocol', 'server', 'client', 'cli'] as const;
/** All that are published, by folder. */
export const PUBLISHED = [...PACKAGES, 'create'] as const;

type Published = (typeof PUBLISHED)[number];

const PICTURE = 'docs/media/session.svg';
/** The documents of each package, for those who read in `node_modules`: files, and folders without those below. */
const DOCUMENTS: Readonly<Record<Published, readonly string[]>> = {
  protocol: ['docs/protocol/'],
  server: ['docs/', 'docs/start/', 'docs/guide/', 'docs/operate/', 'docs/tools/', PICTURE],
  client: [
    ...['AI-SDK', 'CONTRACTS', 'HTTP', 'REACT', 'SURVIVAL', 'TESTING', 'faq', 'how-do-i'].map(
      (name) => `docs/${name}.md`,
    ),
    'docs/start/',
    'docs/guide/',
    PICTURE,
  ],
  cli: ['docs/INSPECTOR.md', 'docs/tools/'],
  create: [],
};

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

async function packOne(name: Published, staging: string, destination: string): Promise<void> {
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
  const manifest = join(content, 'package.json');
  const facts = withFacts(JSON.parse(readFileSync(manifest, 'utf8')), publication, own);
  writeFileSync(manifest, `${JSON.stringify(facts, null, 2)}\n`);
  writePages(name, content);
  const { stdout } = await execute(
    'npm',
    ['pack', '--json', '--ignore-scripts', '--pack-destination', destination],
    { cwd: content },
  );
  const [{ files }] = JSON.parse(stdout) as [{ readonly files: readonly { readonly path: string }[] }];
  const missing = pagesOf(name).filter(({ path }) => !files.some((each) => each.path === path));
  if (missing.length > 0) throw new Error(`the "files" of ${own} leave out ${missing[0]?.path}`);
}

/** Writes the pages of a package. @throws if a link of one leads to no file of the tarball. */
function writePages(name: Published, content: string): void {
  const pages = pagesOf(name);
  for (const page of pages) {
    const to = join(content, page.path);
    mkdirSync(dirname(to), { recursive: true });
    if (page.path.endsWith('.md'))
      writeFileSync(
        to,
        withPackedLinks(readFileSync(join(root, page.file), 'utf8'), publication, page, pages),
      );
    else copyFileSync(join(root, page.file), to);
  }
  for (const { path } of pages.filter((each) => each.path.endsWith('.md')))
    for (const target of linkTargets(readFileSync(join(content, path), 'utf8')))
      if (!existsSync(join(content, dirname(path), target.replace(/#.*/, ''))))
        throw new Error(`${path} of ${name} has a link to ${target}, which is not packed`);
}

/** README, changelog and documents of a package. */
function pagesOf(name: Published): PackedFile[] {
  const documents = DOCUMENTS[name].flatMap((entry) =>
    entry.endsWith('/')
      ? readdirSync(join(root, entry), { withFileTypes: true }).flatMap((each) =>
          each.isFile() && each.name.endsWith('.md') ? [entry + each.name] : [],
        )
      : [entry],
  );
  return [
    { file: `packages/${name}/README.md`, path: 'README.md' },
    { file: 'CHANGELOG.md', path: 'CHANGELOG.md' },
    ...documents.map((file) => ({ file, path: file })),
  ];
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
