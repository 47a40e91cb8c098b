/** Agents and reports about messages to them; a page loads them when it first needs one of the two. */

export { askForAgents } from './agents.js';
export { decodeUndelivered, encodeUndelivered } from './delivery.js';
