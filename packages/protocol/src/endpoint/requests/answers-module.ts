/** Answers to requests of the peer; a page loads them with the first one. */

export { Responder } from './responder.js';
