/** The directory, and reports about messages that were not delivered; a page loads both when it first needs one of them. */

export { decodeUndelivered, encodeUndelivered } from '../messages/delivery.js';
export { askForAgents } from './agents.js';
