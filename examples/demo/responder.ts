/** The demo answers like `parlance serve`. */
export { answerTo, createResponder } from '../../packages/cli/src/serve/toy/model.js';
