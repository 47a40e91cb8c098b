import { readFileSync } from 'node:fs';
import { dirname, relative } from 'node:path/posix';
import { mapTargets } from './docs/links.js';

/**
 * The addresses that a published package names. All of them are in `publication.json`, and are empty until the project has them:
 * tarballs are packed without them, and nothing is published.
 */
export interface Publication {
  /** A name, or `name <address>`. */
  readonly author: string;
  /** Where people report faults. */
  readonly bugs: string;
  readonly homepage: string;
  /** The address that `git clone` takes, without `.git`. */
  readonly repository: string;
}

export const publication = JSON.parse(
  readFileSync(new URL('publication.json', import.meta.url), 'utf8'),
) as Publication;

/** Why these packages cannot be published yet, a sentence each. */
export function obstacles(
  facts: Publication,
  packages: readonly { readonly name: string; readonly version: string }[],
): string[] {
  return [
    ...Object.entries(facts).flatMap(([name, value]) =>
      value === '' ? [`scripts/publication.json has no ${name}`] : [],
    ),
    ...packages.flatMap(({ name, version }) =>
      version === '0.0.0' ? [`${name} has no version: run \`npm run changeset -- version\``] : [],
    ),
  ];
}

type Manifest = Readonly<Record<string, unknown>> & { readonly name: string };

/** @param folder of the package, from the root of the repository. @returns the manifest with what is known. */
export function withFacts(manifest: Manifest, facts: Publication, folder: string): Manifest {
  const { author, bugs, homepage, repository } = facts;
  return {
    ...manifest,
    ...(author !== '' && { author }),
    ...(bugs !== '' && { bugs }),
    ...(homepage !== '' && { homepage }),
    ...(repository !== '' && {
      repository: { type: 'git', url: `git+${repository}.git`, directory: folder },
    }),
  };
}

/** A file of the repository that a tarball has as well. */
export interface PackedFile {
  /** From the root of the repository. */
  readonly file: string;
  /** From the root of the package. */
  readonly path: string;
}

/**
 * A page of a tarball, with links that a reader can follow there. A link to a page of the same tarball stays one; others lead to the
 * repository, and are text while it has no address.
 *
 * @param packed all pages of the tarball.
 */
export function withPackedLinks(
  markdown: string,
  facts: Publication,
  page: PackedFile,
  packed: readonly PackedFile[],
): string {
  return mapTargets(markdown, (target) => {
    const { pathname, hash } = new URL(target, `file:///${page.file}`);
    const to = packed.find(({ file }) => file === pathname.slice(1));
    // The registry shows the README and resolves its links elsewhere.
    if (to === undefined || (page.path === 'README.md' && facts.repository !== ''))
      return facts.repository === '' ? undefined : `${facts.repository}/blob/main${pathname}${hash}`;
    return relative(dirname(page.path), to.path) + hash;
  });
}
