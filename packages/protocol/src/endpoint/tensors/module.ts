/** Tensors in both directions; a page loads them with the first one. */

export { createTensorReceiver } from './receiving.js';
export { sendTensor } from './sending.js';
