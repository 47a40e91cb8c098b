/** HTTP in a session, for `session.fetch`; a page loads it with the first call. */

export { eventTextOf } from './events.js';
export {
  decodeHttpResponse,
  encodeHttpRequest,
  type HttpHeaders,
  type HttpResponseHead,
} from './head.js';
