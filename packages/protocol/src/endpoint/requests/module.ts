/** Requests to the peer, and what a link needs for those of either end; a page loads them with the first one, or after a while. */

export { LinkStreams } from '../../link/link-streams.js';
export { readReplies } from './replies.js';
export { Requester } from './requester.js';
export { StreamQueue } from './stream-queue.js';
