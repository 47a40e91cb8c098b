import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PAGE_BUDGETS } from './bench/src/page/budget.js';
import { LIST_EAGER_FILES, PAGE_OPTIONS, pageFile } from './bench/src/page/bundle.js';

const BUILT = 'packages/cli/dist/ui';

/** The document of a built page, and what it loads at first: its styles, its script and what that imports. */
function filesOfPage(document: string): string[] {
  const html = existsSync(join(BUILT, document)) ? readFileSync(join(BUILT, document), 'utf8') : '';
  const names = [...html.matchAll(/(?:src|href)="\.\/([^"]+)"/g)].map(([, name = '']) => name);
  return [document, ...names].map((name) => join(BUILT, name));
}

export default [
  {
    name: 'client for browsers, without vocabularies and WebAssembly',
    path: 'packages/client/dist/index.js',
    ignore: ['js-tiktoken', 'brotli-wasm', '@bokuweb/zstd-wasm', 'llama3-tokenizer-js'],
    limit: '155.9 kB',
  },
  {
    name: 'the transport for useChat, beside the client',
    path: 'packages/client/dist/ai/transport.js',
    gzip: true,
    limit: '4.7 kB',
    modifyEsbuildConfig: (config: object) => ({
      ...config,
      external: ['../index.js', '@parlance/protocol', '@parlance/protocol/*'],
    }),
  },
  {
    name: 'hooks for React, without React and the client',
    path: 'packages/client/dist/react/index.js',
    gzip: true,
    limit: '3.2 kB',
    modifyEsbuildConfig: (config: object) => ({
      ...config,
      external: ['react', '../index.js', '@parlance/protocol', '@parlance/protocol/*'],
    }),
  },
  {
    name: 'contracts and events, beside the client',
    path: 'packages/client/dist/contract.js',
    gzip: true,
    limit: '4.7 kB',
    modifyEsbuildConfig: (config: object) => ({
      ...config,
      external: ['../../parts/core.js', '@parlance/protocol/client', './core.js'],
    }),
  },
  {
    // In a page, where it has the code of records and not that of errors, it has less than 3 kB.
    name: 'sessions over HTTP, which a client loads if a WebSocket does not open, beside the protocol',
    path: 'packages/client/dist/connection/transports.js',
    gzip: true,
    limit: '2.8 kB',
    modifyEsbuildConfig: (config: object) => ({
      ...config,
      external: ['@parlance/protocol/*', './cannot-connect.js', './probe.js', './stream-places.js'],
    }),
  },
  {
    name: 'the chat page at first load, without the client and the SDK that it shows',
    path: ['packages/ui/src/chat/main.ts', 'packages/ui/styles.css', 'packages/ui/index.html'],
    gzip: true,
    limit: '40.2 kB',
    modifyEsbuildConfig: (config: object) => ({
      ...config,
      ...PAGE_OPTIONS,
      external: ['@parlance/client'],
      loader: { '.html': 'copy' },
      plugins: [LIST_EAGER_FILES],
    }),
  },
  {
    name: 'the dashboard of the admin port at first load, without its charts',
    path: ['packages/ui/src/admin/main.ts', 'packages/ui/admin.css', 'packages/ui/admin.html'],
    gzip: true,
    limit: '19 kB',
    // Its charts come later.
    modifyEsbuildConfig: (config: object) => ({
      ...config,
      ...PAGE_OPTIONS,
      loader: { '.html': 'copy' },
      plugins: [LIST_EAGER_FILES],
    }),
  },
  {
    name: 'the inspector at first load, in one file with the client, without the explainer of frames',
    path: filesOfPage('inspect.html'),
    gzip: true,
    limit: '50 kB',
    // They are built already.
    modifyEsbuildConfig: (config: object) => ({
      ...config,
      bundle: false,
      external: undefined,
      loader: { '.html': 'copy' },
    }),
  },
  ...PAGE_BUDGETS.map(({ page, title, entry }) => ({
    name: `page: ${title}; entry and its static imports`,
    path: pageFile(page),
    gzip: true,
    limit: entry,
    modifyEsbuildConfig: (config: object) => ({ ...config, ...PAGE_OPTIONS, plugins: [LIST_EAGER_FILES] }),
  })),
];
