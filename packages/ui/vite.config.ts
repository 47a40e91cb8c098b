import { join } from 'node:path';
import { defaultClientConditions, defineConfig, type Plugin } from 'vite';

/** Optional packages of the client: a page that goes without them negotiates without them. */
const OPTIONAL = /^(js-tiktoken|brotli-wasm|llama3-tokenizer-js)(\/|$)/;
const MISSING = '\0missing';

const withoutOptional: Plugin = {
  name: 'without optional packages',
  enforce: 'pre',
  resolveId: (specifier) => (OPTIONAL.test(specifier) ? MISSING : undefined),
  load: (id) => (id === MISSING ? 'throw new Error("this page does not carry this package");' : undefined),
};

/** The pages of the command line, and the dashboard of the server, which has a build of its own (`--mode dashboard`). */
export default defineConfig(({ mode }) => ({
  // Relative addresses, so that the built page works under any path.
  base: './',
  plugins: [withoutOptional],
  // The client can run in a shared worker, which this page does not ask for.
  worker: { plugins: () => [withoutOptional] },
  // Use the sources of @parlance/*, so that nothing has to be built first.
  resolve: { conditions: ['@parlance/source', ...defaultClientConditions] },
  build: {
    target: 'es2023',
    outDir: mode === 'dashboard' ? '../server/dist/ui' : '../cli/dist/ui',
    emptyOutDir: true,
    // Inlined files would need an exception in the policy of the page.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      input: (mode === 'dashboard' ? ['admin.html'] : ['index.html', 'inspect.html']).map((name) =>
        join(import.meta.dirname, name),
      ),
    },
    license: { fileName: 'licenses.md' },
  },
}));
