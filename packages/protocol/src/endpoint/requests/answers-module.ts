/** Answers to requests of the peer; a page loads them with the first one. */

export { resolveBatchOptions } from './batch-options.js';
export { Responder } from './responder.js';
