/** Requests to the peer; a page loads them with the first one, or after a while. */

export { Requester } from './requester.js';
