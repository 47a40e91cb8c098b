/** `session.fetch`; a page loads it with the first call. */

export { createFetch, type SessionFetch } from './fetch.js';
