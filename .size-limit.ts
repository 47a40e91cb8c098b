import { PAGE_BUDGETS } from './bench/src/page/budget.js';
import { LIST_EAGER_FILES, PAGE_OPTIONS, pageFile } from './bench/src/page/bundle.js';

export default [
  {
    name: 'client for browsers, without vocabularies and WebAssembly',
    path: 'packages/client/dist/index.js',
    ignore: ['js-tiktoken', 'brotli-wasm', '@bokuweb/zstd-wasm', 'llama3-tokenizer-js'],
    limit: '124 kB',
  },
  ...PAGE_BUDGETS.map(({ page, title, entry }) => ({
    name: `page: ${title}; entry and its static imports`,
    path: pageFile(page),
    gzip: true,
    limit: entry,
    modifyEsbuildConfig: (config: object) => ({ ...config, ...PAGE_OPTIONS, plugins: [LIST_EAGER_FILES] }),
  })),
];
