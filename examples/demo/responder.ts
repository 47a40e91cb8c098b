/** The demo answers like `parlance serve`. */
export { withSum } from '../../packages/cli/src/serve/sum.js';
export { answerTo, createResponder } from '../../packages/cli/src/serve/toy/model.js';
