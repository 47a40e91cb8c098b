import { defineConfig } from 'vite';

export default defineConfig({
  // The `openai` package is the larger part of the page.
  build: { outDir: '../dist/page', emptyOutDir: true, chunkSizeWarningLimit: 1_000 },
});
