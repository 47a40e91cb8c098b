/** The demo answers like `parlance serve`. */
export { answerTo, createResponder, type ResponderOptions } from '../../packages/server/src/cli/toy/model.js';
