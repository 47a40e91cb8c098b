/** Tensors in both directions; a page loads them with the first one. */

export { createTensorReceiver } from './receiving.js';
export { assertSendTensorOptions } from './send-options.js';
export { TensorSender } from './sender.js';
