/** What a link needs for requests, answers and tensors; a page loads it with the first of them. */

export { LinkStreams } from './link-streams.js';
