/** The demo answers like `parlance serve`. */
export {
  ApiError,
  assertChatPath,
  type ChatMessage,
  type ChatRequest,
  completionReply,
  errorReply,
  readHttpHead,
} from '../../packages/server/src/cli/toy/chat-completion.js';
