/** The offer of an end by its options; a page loads it if they are not the usual ones. */

export { resolveCapabilities } from './offer.js';
