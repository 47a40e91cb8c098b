import { existsSync } from 'node:fs';
import { copyFile, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, extname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { type BuildOptions, build, type Metafile, type Plugin } from 'esbuild';

/** Pages as a bundler makes them. */

/** How every page is built. */
export const PAGE_OPTIONS = {
  bundle: true,
  minify: true,
  format: 'esm',
  splitting: true,
  target: 'es2022',
  legalComments: 'none',
  jsx: 'automatic',
  // An optional peer of the client, which applications without that vocabulary do not install.
  external: ['llama3-tokenizer-js'],
} as const satisfies BuildOptions;

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

/** A built page in a folder of its own, deleted when disposed. */
export interface Bundle extends AsyncDisposable {
  readonly folder: string;
  /** Every file but the document: scripts and WebAssembly. */
  readonly files: readonly BundledFile[];
  readonly metafile: Metafile;
}

export interface BundledFile {
  /** Name within the folder. */
  readonly name: string;
  readonly raw: number;
  /** Bytes after `gzip -9`. */
  readonly gzip: number;
  /** Loaded at once: the entry, or imported by it statically, also over other files. */
  readonly isEager: boolean;
}

export interface BundleOptions {
  /** Bundles the sources of the packages, not what was compiled from them. @default false */
  readonly fromSource?: boolean;
  /** Writes a source map beside each script. @default false */
  readonly sourcemap?: boolean;
  /** Packages that others take the place of: names, and folders. @default none */
  readonly alias?: Readonly<Record<string, string>>;
  /** Expressions that others take the place of. @default none */
  readonly define?: Readonly<Record<string, string>>;
}

/** @param name of a file in `pages/`, without its extension. */
export function bundlePage(name: string, options?: BundleOptions): Promise<Bundle> {
  return bundleFile(pageFile(name), options);
}

/** @param file the entry, in TypeScript or JSX. */
export async function bundleFile(
  file: string,
  { fromSource = false, sourcemap = false, alias = {}, define = {} }: BundleOptions = {},
): Promise<Bundle> {
  const folder = await mkdtemp(join(tmpdir(), 'parlance-page-'));
  const { metafile } = await build({
    ...PAGE_OPTIONS,
    entryPoints: [file],
    outdir: folder,
    absWorkingDir: ROOT,
    metafile: true,
    alias: { ...alias },
    define: { ...define },
    logLevel: 'error',
    sourcemap: sourcemap ? 'external' : false,
    ...(fromSource && { conditions: ['@parlance/source', 'module'] }),
  });
  await copyNamedFiles(metafile, folder);
  const eager = new Set([...eagerFiles(metafile)].map((path) => resolve(ROOT, path)));
  await writeFile(
    join(folder, 'index.html'),
    documentOf(
      basename(file, extname(file)),
      [...eager].map((path) => basename(path)),
    ),
  );
  const files: BundledFile[] = [];
  for (const file of await readdir(folder)) {
    if (!/\.(?:js|wasm)$/.test(file)) continue;
    const content = await readFile(join(folder, file));
    const gzip = gzipSync(content, { level: 9 }).length;
    files.push({ name: file, raw: content.length, gzip, isEager: eager.has(join(folder, file)) });
  }
  return {
    folder,
    files,
    metafile,
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  };
}

export function pageFile(name: string): string {
  return fileURLToPath(new URL(`./pages/${name}.ts`, import.meta.url));
}

/** Paths of the entry's output and of the outputs that it imports statically, also over others. */
export function eagerFiles({ outputs }: Metafile): ReadonlySet<string> {
  const found = new Set<string>();
  const follow = (path: string): void => {
    const output = outputs[path];
    if (output === undefined || found.has(path)) return;
    found.add(path);
    for (const { path: next, kind } of output.imports) if (kind === 'import-statement') follow(next);
  };
  // The files behind `import()` have an entry point too.
  const later = new Set(
    Object.values(outputs).flatMap(({ imports }) =>
      imports.filter(({ kind }) => kind === 'dynamic-import').map(({ path }) => path),
    ),
  );
  for (const [path, { entryPoint }] of Object.entries(outputs)) {
    if (entryPoint !== undefined && !later.has(path)) follow(path);
  }
  return found;
}

/**
 * Leaves only the entry and its static imports in the list of what was built, for size-limit: by default, it bundles
 * without splitting and so counts what a page imports dynamically as part of its entry; with splitting, it counts
 * every file on that list.
 */
export const LIST_EAGER_FILES: Plugin = {
  name: 'list eager files',
  setup({ onEnd }) {
    onEnd(({ metafile }) => {
      if (metafile === undefined) return;
      const eager = eagerFiles(metafile);
      for (const path of Object.keys(metafile.outputs)) if (!eager.has(path)) delete metafile.outputs[path];
    });
  },
};

/**
 * esbuild does not copy the files that modules name with `new URL(…, import.meta.url)`, which other bundlers
 * do. Those of every bundled module are copied next to the scripts, where their URLs then point.
 */
async function copyNamedFiles({ inputs }: Metafile, folder: string): Promise<void> {
  for (const input of Object.keys(inputs)) {
    const path = resolve(ROOT, input);
    if (!existsSync(path)) continue;
    const text = await readFile(path, 'utf8');
    for (const [, name] of text.matchAll(/new URL\(["'`]([\w./-]+\.wasm)["'`],\s*import\.meta\.url\)/g)) {
      const named = join(dirname(path), name as string);
      await copyFile(named, join(folder, basename(named)));
    }
  }
}

/** Static imports are announced, as bundlers that write documents do. */
function documentOf(name: string, eager: readonly string[]): string {
  const announced = eager
    .filter((file) => file !== `${name}.js`)
    .map((file) => `<link rel="modulepreload" href="./${file}">\n`);
  return `<!doctype html>
<meta charset="utf-8">
<title>${name}</title>
<link rel="icon" href="data:,">
${announced.join('')}<script type="module" src="./${name}.js"></script>
`;
}
