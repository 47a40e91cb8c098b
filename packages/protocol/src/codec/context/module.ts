/** The parts of context coding that sessions use; a page loads them after it has connected. */

export { ContextDecoder } from './decoder.js';
export { ContextEncoder } from './encoder.js';
