export { decompress, OutputFull } from './decoder.js';
export { compress } from './encoder.js';
