/**
 * Bundles a package for Node: `dist/node`, with one file for each of its `exports` and what these share. Node takes half a
 * millisecond for each file that it loads, even a small one. Runs after `tsc`, in the folder of the package.
 *
 *   node bundle-node.mjs ENTRY… [NAME=FILE…]
 *
 * All that the entries reach without `import()` is one file, `part-core.js`; `NAME=FILE` is an entry that is not exported. All files
 * are in one folder as deep below the package as `src/ROOM`, so that what is beside them is found from both.
 */
import { readFileSync, rmSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { rolldown } from 'rolldown';

const { dependencies, exports, peerDependencies } = JSON.parse(readFileSync('package.json', 'utf8'));
const packages = Object.keys({ ...dependencies, ...peerDependencies });
const together = process.argv.slice(2).filter((argument) => !argument.includes('='));

const exported = Object.values(exports)
  .filter((target) => target.types !== undefined)
  .map(({ types, node, default: other }) => [
    basename(node ?? other, '.js'),
    types.replace(/\.d\.ts$/, '.js'),
  ]);
const others = process.argv
  .filter((argument) => argument.includes('='))
  .map((argument) => argument.split('='));
const input = Object.fromEntries([...exported, ...others].map(([name, file]) => [name, resolve(file)]));

/** Everything that the entries reach without `import()`, found when all modules are known. */
let core;
const reached = (ctx) => {
  const all = new Set(together.map((name) => input[name]));
  for (const id of all) for (const next of ctx.getModuleInfo(id)?.importedIds ?? []) all.add(next);
  return all;
};

rmSync('dist/node', { recursive: true, force: true });
const bundle = await rolldown({
  input,
  platform: 'node',
  // Of packages too that look for files beside their own.
  external: (id) => packages.some((name) => id === name || id.startsWith(`${name}/`)),
});
await bundle.write({
  dir: 'dist/node',
  format: 'esm',
  // The declarations have them.
  comments: { jsdoc: false },
  entryFileNames: '[name].js',
  chunkFileNames: 'part-[name].js',
  codeSplitting: {
    groups: [
      {
        debugName: 'core',
        name: (id, ctx) => {
          core ??= reached(ctx);
          return core.has(id) ? 'core' : null;
        },
      },
    ],
  },
});
await bundle.close();
