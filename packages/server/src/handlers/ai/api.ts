/** Chats of the AI SDK. */

export {
  type ChatAnswer,
  type ChatHandlerOptions,
  chatHandler,
  type UIMessageSource,
} from './handler.js';
export { type ChatRequest, isChatRequest } from './request.js';
export { type ChatSocketOptions, chatSocket } from './socket.js';
