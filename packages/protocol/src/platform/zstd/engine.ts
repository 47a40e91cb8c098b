/** The codec in plain TypeScript. Only `plain.ts` imports it, with `import()`, so that it is a file of its own. */
export { decompress, OutputFull } from './decoder.js';
export { compress } from './encoder.js';
