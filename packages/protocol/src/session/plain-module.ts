/** Sessions without a link, and the JSON envelopes of `m2m.v1.json`; a page loads them for a peer that needs them. */

export { decodeJsonEnvelope, encodeJsonEnvelope } from '../control/envelope-json.js';
export { PlainChannel as Channel } from './plain-channel.js';
