/** Answers to requests of the peer, and what modules add; a page loads them with the first one. */

export { extendSession } from '../additions.js';
export { createResponder } from './answering.js';
export { resolveBatchOptions } from './batch-options.js';
export { unanswered } from './responder.js';
