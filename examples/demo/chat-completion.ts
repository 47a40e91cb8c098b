/** The demo answers like `parlance serve`. */
export {
  type ChatMessage,
  type ChatRequest,
  completionReply,
} from '../../packages/server/src/cli/toy/chat-completion.js';
