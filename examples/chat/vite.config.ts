import { defaultClientConditions, defineConfig } from 'vite';

export default defineConfig({
  // Relative addresses, so that the built page works below any path.
  base: './',
  // The sources of @parlance/*, so that nothing has to be built first.
  resolve: { conditions: ['source', ...defaultClientConditions] },
  // Both fetch a .wasm file that lies beside their module: bundled elsewhere, they would not find it.
  optimizeDeps: { exclude: ['brotli-wasm', '@bokuweb/zstd-wasm'] },
  build: {
    target: 'es2023',
    // A vocabulary is one large chunk by nature, fetched when a session needs it.
    chunkSizeWarningLimit: 3500,
  },
});
