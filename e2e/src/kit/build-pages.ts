/** Builds the pages before the first test, as several workers would otherwise do so at once. */
export { buildUserInterface as setup } from '../../../scripts/build-ui.js';
