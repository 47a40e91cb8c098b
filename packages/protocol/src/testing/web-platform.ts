import { createRequire } from 'node:module';
import { type BrotliModule, loadBrotli } from '../platform/brotli-web.js';
import type { Platform } from '../platform/port.js';
import { platform } from '../platform/web.js';

/**
 * The browser platform, loaded in Node: the WebAssembly module comes from the package's CommonJS build,
 * because the browser build fetches its file.
 */
export async function loadWebPlatform(): Promise<Platform> {
  const require = createRequire(import.meta.url);
  await loadBrotli(async () => require('brotli-wasm') as BrotliModule);
  return platform;
}
