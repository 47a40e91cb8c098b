/** The demo answers like `parlance serve`. */
export {
  type ChatMessage,
  type ChatRequest,
  completionReply,
} from '../../packages/cli/src/serve/toy/chat-completion.js';
