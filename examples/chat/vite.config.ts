import { defaultClientConditions, defineConfig } from 'vite';

export default defineConfig({
  // Relative addresses, so that the built page works under any path.
  base: './',
  // Use the sources of @parlance/*, so that nothing has to be built first.
  resolve: { conditions: ['@parlance/source', ...defaultClientConditions] },
  // It fetches a .wasm file next to its module, which it would not find if bundled elsewhere.
  optimizeDeps: { exclude: ['brotli-wasm'] },
  build: {
    target: 'es2023',
    // A vocabulary is one large chunk, loaded when a session needs it.
    chunkSizeWarningLimit: 3500,
  },
});
