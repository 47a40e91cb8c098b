/**
 * Bundles the shared worker of `@parlance/client`: `dist/web/shared-worker.js`, one file without imports. Every bundler
 * can copy it, and pages without one can serve it as it is. Runs after `tsc`, in the folder of the package.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { rolldown } from 'rolldown';

const { peerDependencies } = JSON.parse(readFileSync('package.json', 'utf8'));
/** The worker cannot load packages of the page, and what stands on them is of no use without them. */
const LEFT_OUT_PACKAGES = new RegExp(`^(${Object.keys(peerDependencies).join('|')})(/|$)`);
/** The tokenizer and M2M need those packages, and sessions in the worker do not look for another worker. */
const LEFT_OUT_FILES = ['./tabs/connect.js', './load.js', './m2m2.js'];
const LEFT_OUT = '\0left-out';

const bundle = await rolldown({
  input: resolve('dist/shared-worker.js'),
  platform: 'browser',
  plugins: [
    {
      name: 'left out',
      resolveId(specifier) {
        const isLeftOut = LEFT_OUT_PACKAGES.test(specifier) || LEFT_OUT_FILES.includes(specifier);
        return isLeftOut ? { id: LEFT_OUT, moduleSideEffects: true } : null;
      },
      load: (id) =>
        id === LEFT_OUT ? 'throw new Error("this is not part of the shared worker"); export {};' : null,
    },
  ],
  transform: { define: { 'import.meta': '{}' } },
  treeshake: { moduleSideEffects: (id) => id === LEFT_OUT || id.endsWith('/dist/shared-worker.js') },
});
const { output } = await bundle.write({
  file: 'dist/web/shared-worker.js',
  format: 'iife',
  minify: true,
  comments: false,
  codeSplitting: false,
});
await bundle.close();
const [{ code, imports }] = output;
if (output.length > 1 || imports.length > 0 || /\bimport(\(|\.meta)/.test(code)) {
  throw new Error('the shared worker must be one file without imports');
}
