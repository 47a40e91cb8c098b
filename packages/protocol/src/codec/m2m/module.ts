/** The parts of M2M that sessions use; a page loads them when M2M is agreed on. */

export {
  decodeM2MBody,
  decodeOpenedM2MBody,
  encodeM2MBody,
  openM2MBody,
  readM2MBodyHeader,
} from './m2m.js';
export { resolveSecurity } from './security.js';
