/** The demo answers like `parlance serve`. */
export { answerTo, createResponder } from '../../packages/server/src/cli/toy/model.js';
