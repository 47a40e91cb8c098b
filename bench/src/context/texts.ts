import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, sep } from 'node:path';
import { gunzipSync } from 'node:zlib';

/**
 * Texts to make conversations of. All but one are files of installed packages, whose versions the lockfile fixes.
 */

const require = createRequire(import.meta.url);

/**
 * "Alice's Adventures in Wonderland" by Lewis Carroll (1865), which is in the public domain: the file `alice29.txt` of
 * the Canterbury corpus, one paragraph a line, without title and end.
 */
export function readNovel(): string {
  return gunzipSync(readFileSync(new URL('./data/novel.txt.gz', import.meta.url))).toString('utf8');
}

/** Files of an installed package, joined, in the order of their names. */
export function readFiles(packageName: string, folder: string, ending: string): string {
  const names = readdirSync(join(folderOf(packageName), folder), { recursive: true, encoding: 'utf8' });
  return names
    .filter((name) => name.endsWith(ending))
    .sort()
    .map((name) => readFileSync(join(folderOf(packageName), folder, name), 'utf8'))
    .join('\n');
}

/** The sentences that TypeScript's compiler says, in English and in another language. */
export function readTranslations(language: string): [english: string, other: string][] {
  const file = join(folderOf('typescript'), 'lib', language, 'diagnosticMessages.generated.json');
  const messages = JSON.parse(readFileSync(file, 'utf8')) as Record<string, string>;
  return Object.entries(messages).map(([key, other]) => [
    key.replace(/_\d+$/, '').replaceAll('_', ' '),
    other,
  ]);
}

/** The descriptions of the web's interfaces, a sentence or two for each member. */
export function readWebPlatform(): string {
  const lines = readFileSync(join(folderOf('typescript'), 'lib', 'lib.dom.d.ts'), 'utf8').split('\n');
  const said = lines.flatMap((line) => /^\s*\* (The .{60,})$/.exec(line)?.[1] ?? []);
  return [...new Set(said)].join('\n');
}

/** The description of each installed package for its registry, in the order of their names. */
export function readPackageDescriptions(): { readonly name: string; readonly text: string }[] {
  const store = storeFolder();
  const found = new Map<string, string>();
  for (const version of readdirSync(store).sort()) {
    // `@scope+name@1.0.0_peer@2.0.0` holds `node_modules/@scope/name`.
    const name = version.slice(0, version.indexOf('@', 1)).replace('+', '/');
    try {
      found.set(name, readFileSync(join(store, version, 'node_modules', name, 'package.json'), 'utf8'));
    } catch {
      // The store has folders that are no packages.
    }
  }
  return [...found].map(([name, text]) => ({ name, text }));
}

function folderOf(packageName: string): string {
  const store = storeFolder();
  const folder = `${packageName.replace('/', '+')}@`;
  // The newest, if several versions are installed.
  const version = readdirSync(store)
    .filter((name) => name.startsWith(folder))
    .sort()
    .at(-1);
  if (version === undefined) throw new Error(`${packageName} is not installed`);
  return join(store, version, 'node_modules', packageName);
}

/** Where pnpm keeps all installed packages. */
function storeFolder(): string {
  const file = require.resolve('ws');
  const mark = `${sep}.pnpm${sep}`;
  return file.slice(0, file.indexOf(mark) + mark.length - 1);
}
