/**
 * Bundles `@parlance/protocol` for pages and workers: `dist/web`. A page gets the files that every session needs as
 * one file, `core.js`, in place of a hundred, and one file for each part that it loads later. Without this, bundlers
 * cut the shared files into some twenty chunks. Runs after `tsc`, in the folder of the package.
 */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import { rolldown } from 'rolldown';
import { SentenceTable, takeSentences } from './sentences.mjs';

const { dependencies, exports, imports, peerDependencies } = JSON.parse(readFileSync('package.json', 'utf8'));

/** `tsc` writes both beside each other. */
const scriptOf = (declarations) => declarations.replace(/\.d\.ts$/, '.js');

/** The entry points that differ between Node and the web, by the names of their files. */
const input = Object.fromEntries(
  Object.values(exports)
    .filter(({ node }) => node !== undefined)
    .map(({ types, default: web }) => [
      web.slice('./dist/web/'.length, -'.js'.length),
      resolve(scriptOf(types)),
    ]),
);

/** The file that a specifier of a file in `dist` means on the web. */
const fileOf = (specifier, importer) =>
  specifier.startsWith('#') ? resolve(imports[specifier].default) : resolve(dirname(importer), specifier);

/** Everything that a file of `dist` reaches without `import()`. */
const reachedFrom = (...files) => {
  const reached = new Set();
  const reach = (file) => {
    if (reached.has(file)) return;
    reached.add(file);
    const code = readFileSync(file, 'utf8');
    for (const [, specifier] of code.matchAll(/^(?:import|export) [^;]*?from '([#.][^']+)';$/gm)) {
      reach(fileOf(specifier, file));
    }
  };
  for (const file of files) reach(resolve(file));
  return reached;
};

const core = reachedFrom(scriptOf(exports['./client'].types));
/** Loaded together, a while after a session has begun. */
const coding = reachedFrom(
  'dist/codec/auto/coder.js',
  'dist/codec/context/module.js',
  'dist/platform/zstd/engine.js',
);

/** Servers have some of its files too. */
const requests = reachedFrom('dist/endpoint/requests/module.js');

/** Shared by `session.fetch` and `onFetch`. */
const http = new Set(['events.js', 'head.js'].map((file) => resolve('dist/endpoint/http', file)));

/** `codec/m2m/module.js` is named by its folder. */
const nameOf = (id) => (id && basename(id) === 'module.js' ? basename(dirname(id)) : undefined);

/** Written when all sentences are known, beside `core.js`, the only file that imports it. */
const SENTENCES = 'sentences.js';
const sentenceTable = resolve('dist/base/sentence-table.js');
const sayFrom = resolve('dist/base/sentences-web.js');
const sentences = new SentenceTable();

rmSync('dist/web', { recursive: true, force: true });
const packages = Object.keys({ ...dependencies, ...peerDependencies });
const bundle = await rolldown({
  input,
  external: (id) => id === SENTENCES || packages.some((name) => id === name || id.startsWith(`${name}/`)),
  plugins: [
    {
      name: 'web',
      resolveId: (specifier, importer) => (specifier.startsWith('#') ? fileOf(specifier, importer) : null),
    },
    {
      name: 'sentences of errors',
      load: (id) =>
        id === sentenceTable ? `export const importSentences = () => import('${SENTENCES}');` : null,
      // Gives the sentences their numbers, as modules are transformed in an order that differs from build to build.
      buildStart() {
        for (const id of [...core].reverse())
          takeSentences(readFileSync(id, 'utf8'), (text) => this.parse(text), sentences, sayFrom);
      },
      transform(code, id) {
        if (!core.has(id)) return null;
        return { code: takeSentences(code, (text) => this.parse(text), sentences, sayFrom), map: null };
      },
      // Paths of external files are rewritten before this.
      renderChunk: (code) => code.replace(`import("${SENTENCES}")`, `import("./${SENTENCES}")`),
    },
  ],
  treeshake: { moduleSideEffects: false },
});
await bundle.write({
  dir: 'dist/web',
  format: 'esm',
  // The declarations have them.
  comments: { jsdoc: false },
  entryFileNames: '[name].js',
  chunkFileNames: ({ name, facadeModuleId }) => `parts/${nameOf(facadeModuleId) ?? name}.js`,
  codeSplitting: {
    groups: [
      { name: 'core', test: (id) => core.has(id), priority: 2 },
      { name: 'coding', test: (id) => coding.has(id), priority: 1 },
      { name: 'requests', test: (id) => requests.has(id), priority: 1 },
      { name: 'http', test: (id) => http.has(id), priority: 1 },
    ],
  },
});
await bundle.close();
writeFileSync(resolve('dist/web/parts', SENTENCES), sentences.code);
// Hermes does not compile `import.meta`, and Metro takes this file in place of the other.
const loading = readFileSync('dist/web/parts/load.js', 'utf8');
writeFileSync('dist/web/parts/load-react-native.js', loading.replaceAll('import.meta', '({})'));
