/** `onFetch`; a page loads it with the first request. */

export { createFetchHandler, type FetchContext, type FetchHandler, type FetchSession } from './serve.js';
