/** Requests to the peer; a page loads them with the first one, or after a while. */

export { readReplies } from './replies.js';
export { Requester } from './requester.js';
