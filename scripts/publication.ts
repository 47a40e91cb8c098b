import { readFileSync } from 'node:fs';

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

/** Links to files of the repository, as a page outside it can follow them; as they are while it has no address. */
export function withAbsoluteLinks(markdown: string, facts: Publication, folder: string): string {
  const { repository } = facts;
  if (repository === '') return markdown;
  return markdown.replaceAll(/(\]\()(?![a-z]+:|#)([^)]+)\)/g, (_link, begin: string, path: string) => {
    const { pathname, hash } = new URL(path, `file:///${folder}/`);
    return `${begin}${repository}/blob/main${pathname}${hash})`;
  });
}
