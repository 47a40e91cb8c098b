import { basename, join } from 'node:path';
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

/** A file that only names exports of another one, which the bundler writes for each `import()` of a module in a group. */
const ALIASES = /^export\{([^}]*)\}from["'`]\.\/([^"'`]+)["'`];?\s*$/;

/** Puts the file that has a module in place of its alias, which would be a request of its own. */
const withoutAliases: Plugin = {
  name: 'without aliases',
  enforce: 'post',
  generateBundle(_options, bundle) {
    const direct = new Map<string, string>();
    for (const [path, file] of Object.entries(bundle)) {
      const [, names, target] = (file.type === 'chunk' && ALIASES.exec(file.code)) || [];
      if (names === undefined) continue;
      const fields = names.split(',').map((name) => {
        const [inner = '', outer = inner] = name.split(' as ');
        return `${outer}:e.${inner}`;
      });
      direct.set(basename(path), `import("./${target}").then(e=>({${fields.join(',')}}))`);
      delete bundle[path];
    }
    for (const file of Object.values(bundle)) {
      if (file.type !== 'chunk') continue;
      file.code = file.code.replace(
        /import\(["'`]\.\/([^"'`]+)["'`]\)/g,
        (found, name: string) => direct.get(name) ?? found,
      );
    }
  },
};

/**
 * Each page begins with one file, in which is what its session loads once it is open as well: the headers of some eighty small files were
 * a third of what the page loaded. Codecs come with the first question, in one more.
 */
const GROUPS = [
  {
    name: 'page',
    test: /[\\/](?:ui[\\/]src[\\/](?:chat|admin|inspector)[\\/](?:main|page)\.ts|client[\\/]src[\\/]reconnect[\\/]re(?:build|tries)|protocol[\\/]src[\\/]endpoint[\\/](?:offers-|requests[\\/])module)/,
    priority: 1,
  },
  {
    name: 'codecs',
    test: /protocol[\\/]src[\\/](?:codec[\\/](?:auto|context)[\\/]|platform[\\/](?:web\.|zstd))/,
  },
];

/** The pages of the command line and the dashboard of the server. Each has a build of its own (`--mode`), and shares no file with the others. */
const PAGES = {
  production: { page: 'index.html', folder: '../cli/dist/ui' },
  inspector: { page: 'inspect.html', folder: '../cli/dist/ui' },
  dashboard: { page: 'admin.html', folder: '../server/dist/ui' },
};

export default defineConfig(({ mode }) => {
  // Tools that only read this file give other modes.
  const { page, folder } = PAGES[mode as keyof typeof PAGES] ?? PAGES.production;
  return {
    // Relative addresses, so that the built page works under any path.
    base: './',
    plugins: [withoutOptional, withoutAliases],
    // The client can run in a shared worker, which this page does not ask for.
    worker: { plugins: () => [withoutOptional] },
    // Use the sources of @parlance/*, so that nothing has to be built first.
    resolve: { conditions: ['@parlance/source', ...defaultClientConditions] },
    build: {
      target: 'es2023',
      outDir: folder,
      // The inspector comes beside the chat page.
      emptyOutDir: mode !== 'inspector',
      // Inlined files would need an exception in the policy of the page.
      assetsInlineLimit: 0,
      modulePreload: false,
      rolldownOptions: {
        output: { codeSplitting: { groups: GROUPS } },
        input: join(import.meta.dirname, page),
      },
      license: { fileName: mode === 'inspector' ? 'licenses-inspector.md' : 'licenses.md' },
    },
  };
});
