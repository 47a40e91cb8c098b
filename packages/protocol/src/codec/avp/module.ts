/** The parts of AVP that sessions use; a page loads them when it sends or receives tensors. */

export { agreeOnAvp, introduction } from './agreement.js';
export { decodeAvp } from './frame.js';
