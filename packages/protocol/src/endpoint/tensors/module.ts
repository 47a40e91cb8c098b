/** Tensors in both directions; a page loads them with the first one. */

export { createTensorReceiver } from './receiving.js';
export { assertSendTensorOptions } from './send-options.js';
export { tensorSenderOf } from './sending.js';
