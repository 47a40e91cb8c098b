/** Answers to requests of the peer; a page loads them with the first one. */

export { createResponder } from './answering.js';
export { resolveBatchOptions } from './batch-options.js';
export { unanswered } from './responder.js';
